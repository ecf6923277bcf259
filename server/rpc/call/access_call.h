// SPDX-License-Identifier: Apache-2.0
//
// CheckAccess: what the caller, or somebody else, may do. Decided here, without the store. Thread and lifetime: see
// UnaryCall.
#pragma once

#include <string>
#include <utility>

#include "distlock/v1/admin_service.pb.h"
#include "rpc/call/unary_call.h"

namespace distlock::rpc {

class CheckAccessCall final : public UnaryCall {
 public:
  // `obstacle`: why what is for operators is not served where the caller is; "": they are.
  explicit CheckAccessCall(std::string obstacle) : obstacle_(std::move(obstacle)) {}

 private:
  void Start(const grpc::ByteBuffer& request) override;

  const std::string obstacle_;
};

}  // namespace distlock::rpc
