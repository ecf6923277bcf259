// SPDX-License-Identifier: Apache-2.0
//
// Acquires that are not answered yet, as the store sees them: attempts, and places in the store's queues, from the
// first attempt to the grant or the withdrawal. Who waits for the answer is told in callers.h.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/pending_releases.h"
#include "core/queues.h"
#include "core/records.h"
#include "core/wants.h"

namespace distlock::core {

class Callers;
class Grants;

class Waiters final : public PartOf<Waiter> {
 public:
  Waiters(CoreContext& core, Claims& claims, PendingReleases& releases, Queues& queues, Wants& wants, Grants& grants,
          Callers& callers)
      : core_(core),
        claims_(claims),
        releases_(releases),
        queues_(queues),
        wants_(wants),
        grants_(grants),
        callers_(callers) {}

  // Begins to ask for what the waiter wants. REQUIRES: it has callers.
  void Begin(std::unique_ptr<Waiter> waiter);
  // Waits for the next part of a bundle, with the bundle's callers.
  void AskForPart(Bundle& bundle);
  // The command of an attempt, but for its op and times.
  static StoreAcquire CommandFor(const Acquire& spec);
  // Sends an attempt, now or when nothing stands against it any more.
  void Ask(Waiter& waiter);
  void OnTimer(Waiter& waiter) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // Asks for all that have no place in the store's queue and no attempt in flight.
  void OnStoreUp() override;
  // The store has released all that `owner` had: a waiter of the same owner may ask now.
  void OnReleased(const OwnerId& owner);
  // A notice about this lock came: it may be newer than the answer to an attempt in flight.
  void Hint(const LockName& name);
  // The waiter asks for a new place in the store's queue, or finds out that it has one, at its next attempt.
  void LosePlace(Waiter& waiter);

  // Ends the waiter here and, where it may exist there, in the store.
  void Withdraw(Waiter& waiter);
  // Ends the waiter here; of one that is a try of a request, the store keeps the place, or the grant that it gets
  // meanwhile, until another try has had time to come. `refused`: what its callers are told; null: they have gone.
  void KeepForRetry(Waiter& waiter, const Refused* refused);
  // Forgets the waiter. The store is told nothing.
  void Forget(Waiter& waiter);
  // Until when an attempt whose answer is not known may take effect.
  Instant LatestRun(const Waiter& waiter) const;

  // Sets its deadline anew: a caller has come.
  void Arm(Waiter& waiter);

  bool IsIdle() const override { return claims_.waiters() == 0; }
  size_t Check() const override;

 private:
  PendingRelease* GiveUp(Waiter& waiter);
  void GiveBackOtherTries(const Waiter& waiter, const std::vector<HolderView>& holders);
  void LeaveAttempt(Waiter& waiter);
  void OnLateReply(const Op& op, const StoreReply& reply);
  void OnGranted(Waiter& waiter, const AcquireGranted& granted, Instant sent);
  void OnQueued(Waiter& waiter, AcquireQueued& queued, const Op& op, OpId id);
  void OnMismatch(Waiter& waiter, const AcquireMismatch& held);
  void OnFailed(Waiter& waiter, const StoreFailed& failed);
  // Once: its callers hear that it waits, and how long it may is theirs to say from then on.
  void TellQueued(Waiter& waiter, Queued queued);
  // A hold that the request has already is to end first: the request waits, without a place.
  void WaitForEnd(Waiter& waiter, std::string trouble);
  void RetryLater(Waiter& waiter, std::string trouble);

  CoreContext& core_;
  Claims& claims_;
  PendingReleases& releases_;
  Queues& queues_;
  Wants& wants_;
  Grants& grants_;
  Callers& callers_;
  absl::btree_map<uint64_t, Waiter*> unplaced_;  // by serial: without a place in the store's queue
};

}  // namespace distlock::core
