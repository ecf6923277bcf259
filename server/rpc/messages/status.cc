// SPDX-License-Identifier: Apache-2.0
#include "rpc/messages/status.h"

namespace distlock::rpc {

grpc::Status ToStatus(const wire::RpcStatus& error) {
  return {static_cast<grpc::StatusCode>(error.code()), error.message(), error.SerializeAsString()};
}

}  // namespace distlock::rpc
