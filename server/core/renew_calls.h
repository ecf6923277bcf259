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

class RenewCalls final : public PartOf<RenewCall> {
 public:
  RenewCalls(CoreContext& core, Claims& claims) : core_(core), claims_(claims), calls_(core, *this) {}

  void Handle(Renew& in);
  void OnStoreUp() override;
  void OnTimer(RenewCall& call) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The call that asked is over. False: there is none.
  bool Drop(SessionId session);

  bool IsIdle() const override { return calls_.empty(); }
  size_t Check() const override { return calls_.Check(); }

 private:
  void Send(RenewCall& call);

  CoreContext& core_;
  Claims& claims_;
  RetryingCalls<RenewCall> calls_;
};

}  // namespace distlock::core
