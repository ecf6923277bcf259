// SPDX-License-Identifier: Apache-2.0
//
// Convert calls, which make an EXCLUSIVE lease SHARED. The store knows in which mode a lease is held; it is asked, and
// asked again as long as the outcome is not known.
//
// Thread: the shard's.
#pragma once

#include <string>

#include "core/core_context.h"
#include "core/retrying_calls.h"

namespace distlock::core {

struct DowngradeCall : RetryingCall {
  DowngradeCall() : RetryingCall(TimerKind::kDowngrade) {}
  Convert request;
};

class Downgrades {
 public:
  explicit Downgrades(CoreContext& core) : core_(core), calls_(core) {}

  // `in` names a lease by name, owner and token.
  void Begin(Convert& in);
  // Answers a request that is not begun.
  void Refuse(const Convert& in, RefusalReason reason, std::string cause);
  void OnStoreUp();
  void OnTimer(DowngradeCall& call);
  void OnReply(const Op& op, OpId id, StoreReply& reply);
  // The stream or call that asked is over.
  void Drop(SessionId session) { calls_.Drop(session); }

  bool empty() const { return calls_.empty(); }

 private:
  void Send(DowngradeCall& call);

  CoreContext& core_;
  RetryingCalls<DowngradeCall> calls_;
};

}  // namespace distlock::core
