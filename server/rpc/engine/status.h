// SPDX-License-Identifier: Apache-2.0
//
// An error of the contract as the end of a gRPC call: its details travel in the trailers. Pure; any thread.
#pragma once

#include <grpcpp/support/status.h>

#include "google/rpc/status.pb.h"

namespace distlock::rpc {

grpc::Status ToStatus(const google::rpc::Status& error);

}  // namespace distlock::rpc
