// SPDX-License-Identifier: Apache-2.0
//
// Streams over gRPC: a channel to each broker, connected when it is first tried, and the thread that runs the streams.
// Not for a child that was forked while its parent used gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stream.h"

namespace distlock::internal {

std::unique_ptr<Transport> MakeGrpcTransport(const ClientOptions& options, const std::vector<std::string>& addresses);

}  // namespace distlock::internal
