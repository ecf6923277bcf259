// SPDX-License-Identifier: Apache-2.0
//
// An error of the contract as the end of a gRPC call: its details travel in the trailers. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include "distlock/wire/status_details.pb.h"

namespace distlock::rpc {

grpc::Status ToStatus(const wire::RpcStatus& error);

}  // namespace distlock::rpc
