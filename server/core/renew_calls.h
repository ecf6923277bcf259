// SPDX-License-Identifier: Apache-2.0
//
// Renew calls for detached leases. The broker remembers nothing of such a lease between calls.
//
// Thread: the shard's.
#pragma once

#include "core/core_context.h"
#include "core/look_scheduler.h"
#include "core/past_grants.h"
#include "core/retrying_calls.h"

namespace distlock::core {

struct RenewCall : RetryingCall {
  RenewCall() : RetryingCall(TimerKind::kRenewCall) {}
  Renew request;
  Instant arrived{};
};

class RenewCalls {
 public:
  RenewCalls(CoreContext& core, PastGrants& past_grants, LookScheduler& looks)
      : core_(core), past_grants_(past_grants), looks_(looks), calls_(core) {}

  void Handle(Renew& in);
  void OnStoreUp();
  void OnTimer(RenewCall& call);
  void OnReply(const Op& op, OpId id, StoreReply& reply);
  // The call that asked is over. False: there is none.
  bool Drop(SessionId session);

  bool empty() const { return calls_.empty(); }

 private:
  void Send(RenewCall& call);

  CoreContext& core_;
  PastGrants& past_grants_;
  LookScheduler& looks_;
  RetryingCalls<RenewCall> calls_;
};

}  // namespace distlock::core
