// SPDX-License-Identifier: Apache-2.0
//
// CheckAccess: what the caller, or somebody else, may do. Decided here, without the store. Thread and lifetime: see
// UnaryCall.
#pragma once

#include "distlock/v1/admin_service.pb.h"
#include "rpc/call/unary_call.h"

namespace distlock::rpc {

class CheckAccessCall final : public UnaryCall {
 private:
  void Start(const grpc::ByteBuffer& request) override;
};

}  // namespace distlock::rpc
