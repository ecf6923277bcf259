// SPDX-License-Identifier: Apache-2.0
//
// Downgrade calls, which make an EXCLUSIVE lease SHARED. The store knows in which mode a lease is held; it is asked,
// and asked again as long as the outcome is not known. A lease of a stream is downgraded by the broker that has the
// stream: another one could tell neither that broker, which goes on to let its session take the lock again, nor the
// client. It refuses, once the store has said that the lease is held.
//
// Thread: the shard's.
#pragma once

#include <string>

#include "core/claims.h"
#include "core/core_context.h"
#include "core/retrying_calls.h"
#include "core/sessions.h"

namespace distlock::core {

struct DowngradeCall : RetryingCall {
  explicit DowngradeCall(Part& of) : RetryingCall(of) {}
  Downgrade request;
};

class Downgrades final : public PartOf<DowngradeCall> {
 public:
  Downgrades(CoreContext& core, const Claims& claims, const Sessions& sessions)
      : core_(core), claims_(claims), sessions_(sessions), calls_(core, *this) {}

  void Handle(Downgrade& in);
  void OnStoreUp() override;
  void OnTimer(DowngradeCall& call) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The stream or call that asked is over.
  void Drop(SessionId session) { calls_.Drop(session); }

  bool IsIdle() const override { return calls_.empty(); }
  size_t Check() const override { return calls_.Check(); }

 private:
  bool IsBeingReleased(const OwnerId& owner, uint64_t token) const;
  void Refuse(const Downgrade& in, RefusalReason reason, std::string cause);
  void Send(DowngradeCall& call);

  CoreContext& core_;
  const Claims& claims_;
  const Sessions& sessions_;
  RetryingCalls<DowngradeCall> calls_;
};

}  // namespace distlock::core
