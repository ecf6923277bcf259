// SPDX-License-Identifier: Apache-2.0
//
// Locks that an administrator takes from their holders. A lease of this broker ends like one whose stream broke: it is
// freed when its client has ceased to believe in it. For a lease of another broker, the store tells that broker. The call
// looks again and again until the holder is gone.
//
// Thread: the shard's.
#pragma once

#include <optional>
#include <string>

#include "core/core_context.h"
#include "core/past_grants.h"
#include "core/pending_releases.h"
#include "core/retrying_calls.h"

namespace distlock::core {

struct ForceCall : RetryingCall {
  ForceCall() : RetryingCall(TimerKind::kForceCall) {}
  ForceRelease request;
  bool acted =
      false;  // a command or this broker may have ended the lease: if the holder is gone, it may be by this call
};

// What forced releases need to know of this broker's own leases. Called only for forced releases.
class ForceTargets {
 public:
  // The token of the lease that this broker renews for `owner`; nullopt: none.
  virtual std::optional<uint64_t> TokenOf(const OwnerId& owner) const = 0;
  // Ends that lease: its client is told at once, and the lock is freed when its belief has ended. REQUIRES: TokenOf(owner).
  virtual void ForceLease(const OwnerId& owner, const std::string& reason) = 0;
  // When the store will be asked to free an ending lease of `owner`; nullopt: there is no lease.
  virtual std::optional<Instant> FreeAt(const OwnerId& owner) const = 0;
  // Whether an acquire of `owner` is unanswered here.
  virtual bool IsWaiting(const OwnerId& owner) const = 0;

 protected:
  ~ForceTargets() = default;
};

class ForceCalls {
 public:
  ForceCalls(CoreContext& core, ForceTargets& targets, PastGrants& past_grants, PendingReleases& releases)
      : core_(core), targets_(targets), past_grants_(past_grants), releases_(releases), calls_(core) {}

  void Handle(ForceRelease& in);
  // Another broker's caller takes a lock from a holder that has it through this broker.
  void Handle(const ForceNotice& in);
  void OnTimer(ForceCall& call);
  void OnReply(const Op& op, OpId id, StoreReply& reply);
  // The stream or call that asked is over.
  void Drop(SessionId session) { calls_.Drop(session); }

  bool empty() const { return calls_.empty(); }

 private:
  bool MustWait(const OwnerId& owner) const;
  void Pursue(ForceCall& call);
  Duration Pause(const ForceCall& call);

  CoreContext& core_;
  ForceTargets& targets_;
  PastGrants& past_grants_;
  PendingReleases& releases_;
  RetryingCalls<ForceCall> calls_;
};

}  // namespace distlock::core
