// SPDX-License-Identifier: Apache-2.0
//
// Acquires that are not answered yet: from the request to its grant, its refusal or its withdrawal. Several callers may
// wait for one answer.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/pending_releases.h"
#include "core/queues.h"
#include "core/records.h"
#include "core/sessions.h"

namespace distlock::core {

class Bundles;
class Grants;

class Waiters final : public PartOf<Waiter> {
 public:
  Waiters(CoreContext& core, Claims& claims, PendingReleases& releases, Sessions& sessions, Queues& queues,
          Grants& grants, Bundles& bundles)
      : core_(core),
        claims_(claims),
        releases_(releases),
        sessions_(sessions),
        queues_(queues),
        grants_(grants),
        bundles_(bundles) {}

  void Handle(Acquire& in);
  // Waits for the next part of a bundle, with the bundle's callers.
  void AskForPart(Bundle& bundle);
  // One more caller waits for the same answer.
  void Join(Waiter& waiter, const Acquire& in);
  // Sends an attempt, now or when nothing stands against it any more.
  void Ask(Waiter& waiter);
  void OnTimer(Waiter& waiter) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // Asks for all that have no place in the store's queue and no attempt in flight.
  void OnStoreUp() override;
  // What `owner` had in the store is released: a waiter of the same owner may ask now.
  void OnReleased(const OwnerId& owner);
  // A notice about this lock came: it may be newer than the answer to an attempt in flight.
  void Hint(const LockName& name);
  // The waiter asks for a new place in the store's queue, or finds out that it has one, at its next attempt.
  void LosePlace(Waiter& waiter);

  // Refuses all callers of the waiter; the store is told, and the waiter is gone.
  void Refuse(Waiter& waiter, const Refused& refused);
  // Refuses the callers of a session's request.
  void Cancel(Waiter& waiter, RequestId request);
  // Ends the waiter here and, where it may exist there, in the store.
  void Withdraw(Waiter& waiter);
  // Ends the waiter here; of one that is a try of a request, the store keeps the place, or the grant that it gets
  // meanwhile, until another try has had time to come. `refused`: what its callers are told; null: they have gone.
  void Orphan(Waiter& waiter, const Refused* refused);
  // Forgets the waiter. The store is told nothing.
  void Forget(Waiter& waiter);
  // A detached call is over. False: no call of that session waits.
  bool DropCall(SessionId session);
  void RefuseAllDetached(const Refused& refused);

  // The caller that an acquire stands for.
  Caller CallerOf(const Acquire& in) const;
  static std::vector<Caller>& CallersOf(Waiter& waiter);
  // Who is told of its place.
  static Listener ListenerOf(Waiter& waiter);
  // What a caller is told whose time is up. `answered`: the store has said once that it waits; `trouble`: why it could
  // not answer since.
  Refused WhyItEnds(const Caller& caller, const LockName& name, bool answered, const std::string& trouble) const;
  // Until when an attempt whose answer is not known may take effect.
  Instant LatestRun(const Waiter& waiter) const;

  bool IsIdle() const override { return claims_.waiters() == 0; }
  size_t Check() const override;

 private:
  bool Reenter(Session& session, const Acquire& in);
  bool JoinRepeat(const Acquire& in);
  void Unlist(const Waiter& waiter, const Listener& listener);
  PendingRelease* GiveUp(Waiter& waiter);
  void EndOtherTry(const Acquire& in);
  void HurryOtherTries(const Waiter& waiter, const std::vector<HolderView>& holders);
  void Arm(Waiter& waiter);
  void LeaveAttempt(Waiter& waiter);
  Instant Patience(const Waiter& waiter, const Caller& caller) const;
  Instant EndOf(const Waiter& waiter, const Caller& caller) const;
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
  template <typename Over, typename Why>
  bool TurnAway(Waiter& waiter, Over over, Why why);
  void TellRefused(const Waiter& waiter, const Caller& caller, Refused refused);
  bool RefuseOverdue(Waiter& waiter);
  void CheckCallers(const Waiter& waiter) const;
  bool TurnAwayOneTries(Waiter& waiter, const std::vector<HolderView>& holders, std::optional<Duration> look_in,
                        uint32_t queue_length, Duration held_off);

  CoreContext& core_;
  Claims& claims_;
  PendingReleases& releases_;
  Sessions& sessions_;
  Queues& queues_;
  Grants& grants_;
  Bundles& bundles_;
  absl::btree_map<uint64_t, Waiter*> unplaced_;   // by serial: without a place in the store's queue
  absl::btree_map<SessionId, Waiter*> detached_;  // calls that wait for a detached grant
};

}  // namespace distlock::core
