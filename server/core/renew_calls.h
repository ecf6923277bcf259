// SPDX-License-Identifier: Apache-2.0
//
// Renew calls for detached leases. The broker remembers nothing of such a lease between calls.
//
// Thread: the shard's.
#pragma once

#include "core/claims.h"
#include "core/core_context.h"
#include "core/retrying_calls.h"

namespace distlock::core {

struct RenewCall : RetryingCall {
  explicit RenewCall(Part& of) : RetryingCall(of) {}
  Renew request;
  Instant arrived{};
};

class RenewCalls final : public RetryingCalls<RenewCall> {
 public:
  RenewCalls(CoreContext& core, Claims& claims) : RetryingCalls(core), claims_(claims) {}

  void Handle(Renew& in);
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;

 private:
  void Send(RenewCall& call) override;

  Claims& claims_;
};

}  // namespace distlock::core
