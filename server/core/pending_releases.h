// SPDX-License-Identifier: Apache-2.0
//
// Releases and withdrawals that must reach the store. Whatever may exist in the store without a record here is released
// again and again until the store has confirmed it, or until it must have expired by itself. Only so many are under way
// at once; the others are deferred, those that a caller waits for first in line.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/part.h"
#include "core/queues.h"

namespace distlock::core {

class PendingReleases final : public PartOf<PendingRelease> {
 public:
  PendingReleases(CoreContext& core, Claims& claims, Queues& queues) : core_(core), claims_(claims), queues_(queues) {}

  // The record of `owner`, new or joined by this further reason: its grant is given up, for which the lock is blocked
  // for `block`, and, if `only_token` is not 0, no other grant than that. `lifetime`: how long the store may keep it.
  // The caller may fill in more of the record, and must then Pursue it.
  PendingRelease& StartRelease(const LockName& name, const OwnerId& owner, Duration block, Duration lifetime,
                               uint64_t only_token);
  // The same for its place in the queue.
  PendingRelease& StartWithdrawal(const LockName& name, const OwnerId& owner, Duration lifetime);
  // The record that undoes what an acquire has taken, or may take until `may_run_until`. `order_lost`: a connection
  // broke with it. The caller must Pursue it.
  PendingRelease& Undo(const Acquire& spec, Instant may_run_until, bool order_lost);
  // A late answer has shown that the store has something of `owner` that nobody here wants.
  void Withdraw(const LockName& name, const OwnerId& owner, Duration lifetime);
  // Sends it now, or after the answer to the command in flight.
  void Pursue(PendingRelease& release);
  // Withdraws or releases it once `time` has passed: its request may come again until then. See Pursue.
  void PursueAfter(PendingRelease& release, Duration time);
  // Another try of the same request has come: gives up now what `owner` has and was to be kept for it.
  void GiveBackNow(const OwnerId& owner);
  // A grant has reached `owner`, and is kept. To a broker that drains no other try of its request comes any more, so it
  // is given up soon.
  void OnGrantForNobody(const OwnerId& owner);
  // A caller releases a detached lease, or one that this broker does not know.
  void Release(const core::Release& in);
  // `recipient` waits for the outcome.
  void TellOutcome(PendingRelease& release, const Recipient& recipient);

  // The store is up again: sends all that wait for a retry.
  void OnStoreUp() override;
  // Sends deferred ones as far as the limit allows. Called in each Step.
  void SendDeferred();

  void OnTimer(PendingRelease& release) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The owners whose records are gone since the last call: they may acquire again.
  std::vector<OwnerId> TakeGone() { return std::exchange(gone_, {}); }

  // Whether what `owner` has is kept for another try of its request.
  bool IsKeptForRetry(const OwnerId& owner) const;
  bool IsIdle() const override { return claims_.releases() == 0; }
  size_t Check() const override;

 private:
  PendingRelease& RecordOf(const LockName& name, const OwnerId& owner, Duration lifetime);
  void Send(PendingRelease& release);
  void SendCommand(PendingRelease& release);
  void Defer(PendingRelease& release);
  void SetOp(PendingRelease& release, OpId op);
  static void NoteUnanswered(PendingRelease& release);
  void Arm(PendingRelease& release);
  void OnFailure(PendingRelease& release, const StoreReply& reply);
  void Answer(PendingRelease& release, bool was_holder);
  void Finish(PendingRelease& release);

  CoreContext& core_;
  Claims& claims_;
  Queues& queues_;
  std::vector<OwnerId> gone_;
  size_t sent_ = 0;                                      // those with an op
  absl::btree_map<uint64_t, PendingRelease*> deferred_;  // in the order in which they are sent
};

}  // namespace distlock::core
