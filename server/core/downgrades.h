// SPDX-License-Identifier: Apache-2.0
//
// Downgrade calls, which make an EXCLUSIVE lease SHARED. The store knows in which mode a lease is held; it is asked,
// and asked again as long as the outcome is not known. A lease of a stream is downgraded by the broker that has the
// stream: another one could tell neither that broker, which goes on to let its session take the lock again, nor the
// client. It refuses, once the store has said that the lease is held.
//
// Thread: the shard's.
#pragma once

#include "core/claims.h"
#include "core/core_context.h"
#include "core/retrying_calls.h"
#include "core/sessions.h"

namespace distlock::core {

struct DowngradeCall : RetryingCall {
  explicit DowngradeCall(Part& of) : RetryingCall(of) {}
  Downgrade request;
};

class Downgrades final : public RetryingCalls<DowngradeCall> {
 public:
  Downgrades(CoreContext& core, const Claims& claims, const Sessions& sessions)
      : RetryingCalls(core), claims_(claims), sessions_(sessions) {}

  void Handle(Downgrade& in);
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;

 private:
  bool IsBeingReleased(const OwnerId& owner, uint64_t token) const;
  void Send(DowngradeCall& call) override;
  const char* Doubt() const override {
    return "; whether the lease is SHARED by now is not known: treat it as that and ask again";
  }

  const Claims& claims_;
  const Sessions& sessions_;
};

}  // namespace distlock::core
