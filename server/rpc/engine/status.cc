// SPDX-License-Identifier: Apache-2.0
#include "rpc/engine/status.h"

namespace distlock::rpc {

grpc::Status ToStatus(const google::rpc::Status& error) {
  return {static_cast<grpc::StatusCode>(error.code()), error.message(), error.SerializeAsString()};
}

}  // namespace distlock::rpc
