// SPDX-License-Identifier: Apache-2.0
//
// Releases and withdrawals that must reach the store. Whatever may exist in the store without a record here is released
// again and again until the store has confirmed it, or until it must have expired by itself. Only so many are under way
// at once; the others are deferred, those that a caller waits for first in line.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/core_context.h"
#include "core/look_scheduler.h"
#include "core/part.h"

namespace distlock::core {

// A release or withdrawal that is not confirmed.
struct PendingRelease : PartRecord {
  explicit PendingRelease(Part& of) : PartRecord(of) {}
  LockName name;
  OwnerId owner{};
  // What is still to be given up. Withdrawing gives up both at once, but for a repeatable owner, whose grants it
  // spares.
  bool waiting = false;  // its place in the queue
  bool holding = false;  // its grant
  Duration block{};
  bool has_min_hold = false;   // its grant; of one that this broker does not know, the store's record says
  bool ends_min_hold = false;  // see StoreRelease
  Listener listener;           // who is told the outcome
  Instant answer_until{};      // the end of the listener's patience
  uint64_t token = 0;          // of a lease of ours, for the answer
  uint64_t only_token = 0;     // the grant that is meant; 0: whatever the owner has, which no caller can ask for
  bool confirms = false;       // see StoreRelease::confirms; not once an attempt's outcome is not known
  Instant not_before{};        // of an orphan: another try of its request may take it over until then
  Instant until{};             // the store has forgotten it by itself then
  Instant retry_at = kNever;
  Instant
      may_run_until{};  // an acquire of the owner may still run until then: release again after it if order was lost
  // A withdrawal of unknown outcome may still run until then. It names no grant, so its owner does not ask meanwhile.
  Instant withdraws_until{};
  bool order_lost = false;   // a connection broke: the store may run that acquire after this release
  uint64_t deferred_as = 0;  // its key among the deferred; 0: it is not deferred
  OpId op = 0;
  bool withdrawing = false;  // what `op` does; else it releases
  Instant op_until{};        // it does nothing any more from then on, if it withdraws
  uint64_t releasing = 0;    // the only_token that `op` was sent with
  int attempts = 0;
};

class PendingReleases final : public PartOf<PendingRelease> {
 public:
  PendingReleases(CoreContext& core, LookScheduler& looks) : core_(core), looks_(looks) {}

  // The record of `owner`, new or joined by this further reason. `waiting`: its place in the queue is given up; else
  // its grant, for which the lock is blocked for `block`, and, if `only_token` is not 0, no other grant than that.
  // `lifetime`: how long the store may keep it. The caller may fill in more of the record, and must then Pursue it.
  PendingRelease& Start(const LockName& name, const OwnerId& owner, bool waiting, Duration block, Duration lifetime,
                        uint64_t only_token);
  // Sends it now, or after the answer to the command in flight.
  void Pursue(PendingRelease& release);
  // Withdraws or releases it once `time` has passed: its request may come again until then. See Pursue.
  void PursueLater(PendingRelease& release, Duration time);
  // Another try of the same request has come: gives up now what `owner` has and was to be kept for it.
  void Hurry(const OwnerId& owner);
  // What `owner` waited for has reached it, and is kept. To a broker that drains no other try of its request comes any
  // more, so it is given up soon.
  void OnReachedNobody(const OwnerId& owner);
  // A caller releases a detached lease, or one that this broker does not know.
  void Release(const core::Release& in);

  // The store is up again: sends all that wait for a retry.
  void OnStoreUp() override;
  // Sends deferred ones as far as the limit allows. Called in each Step.
  void SendDeferred();

  void OnTimer(PendingRelease& release) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The owners whose records are gone since the last call: they may acquire again.
  std::vector<OwnerId> TakeGone() { return std::exchange(gone_, {}); }

  // Null: nothing of `owner` is being released.
  PendingRelease* Find(const OwnerId& owner) const;
  bool Contains(const OwnerId& owner) const { return releases_.contains(owner); }
  // Whether the grant of `owner` with this token (0: any) is on its way back to the store.
  bool IsReleasing(const OwnerId& owner, uint64_t token) const;
  // Whether what `owner` has is kept for another try of its request.
  bool IsKept(const OwnerId& owner) const;
  size_t size() const { return releases_.size(); }
  bool IsIdle() const override { return releases_.empty(); }
  size_t Check() const override;

 private:
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
  LookScheduler& looks_;
  absl::flat_hash_map<OwnerId, std::unique_ptr<PendingRelease>> releases_;
  std::vector<OwnerId> gone_;
  size_t sent_ = 0;                                      // those with an op
  absl::btree_map<uint64_t, PendingRelease*> deferred_;  // in the order in which they are sent
};

}  // namespace distlock::core
