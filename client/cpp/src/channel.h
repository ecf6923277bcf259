// SPDX-License-Identifier: Apache-2.0
//
// The channel to a broker: each stream has one of its own, and the calls with one answer share another (lookups.h).
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "distlock/client.h"

namespace distlock::internal {

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options, const std::string& address);

}  // namespace distlock::internal
