// SPDX-License-Identifier: Apache-2.0
//
// The core of one shard: every decision about leases, waiters, renewals, sessions and deadlines. Pure: no IO, clock,
// threads, logging or randomness but the seed. The store decides who holds; the core decides who waits here, until when,
// and what may be promised to whom.
//
// Thread: one, the shard's. Time must not go backwards between calls.
// Invariants:
//  1. A listener gets exactly one final answer per request: Refused, or Granted and later at most one of Released, Lost
//     and, when a Cancel crossed the grant, Refused(kCancelled).
//  2. A promise never passes the lease's deadline D = sent + ttl - margin; nothing is freed early while a promise lasts.
//  3. Whatever may exist in the store without a record here is being released until the store has confirmed it.
//  4. No lease is renewed, and no grant accepted, at or after its D.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/broker_config.h"
#include "core/core_context.h"
#include "core/downgrades.h"
#include "core/force_calls.h"
#include "core/messages.h"
#include "core/past_grants.h"
#include "core/pending_releases.h"
#include "core/records.h"
#include "core/renew_calls.h"
#include "core/renewals.h"
#include "core/timers.h"
#include "core/watches.h"

namespace distlock::core {

class Broker : LookScheduler, ForceTargets {
 public:
  explicit Broker(const BrokerConfig& config);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Expires all that is due at `now`, then handles the input. Appends to `effects`; their order is the order to perform
  // them in. A store command counts as sent at `now`: it must be handed to the store at once.
  void Step(Instant now, Input&& input, std::vector<Effect>& effects);

  // When Step is wanted next at the latest; kNever: no need.
  Instant NextDeadline() const { return core_.timers.Earliest(); }

  BrokerStats Stats() const;

 private:
  // broker.cc: inputs, time, what all parts use
  void ExpireDue();
  void Handle(const Tick&) {}
  void Handle(const OpenSession& in);
  void Handle(Acquire& in);
  void Handle(AcquireAll& in);
  void Handle(const Cancel& in);
  void Handle(const Release& in);
  void Handle(Renew& in) { renew_calls_.Handle(in); }
  void Handle(const WatchLock& in) { watches_.Handle(in); }
  void Handle(const Heartbeat& in);
  void Handle(const Goodbye& in);
  void Handle(const StreamEnded& in);
  void Handle(const Drain& in);
  void Handle(const StoreUp& in);
  void Handle(const StoreDown& in);
  void Handle(const ChannelUp&);
  void Handle(const GrantNotice& in);
  void Handle(const ChangeNotice& in) { watches_.Handle(in); }
  void Handle(Convert& in);
  void Handle(ForceRelease& in) { force_calls_.Handle(in); }
  void Handle(const ForceNotice& in) { force_calls_.Handle(in); }
  void Handle(StoreReply& in);
  template <typename T>
  void Tell(const Listener& to, T event) {
    core_.Tell(to, std::move(event));
  }
  void Note(Fact fact) { core_.Note(std::move(fact)); }
  OpId SendOp(Op op) { return core_.SendOp(std::move(op)); }
  template <typename T>
  void Command(T command) {
    core_.Command(std::move(command));
  }
  void NoteSilence(const std::string& cause) { core_.ReconnectIfSilent(cause); }
  Duration Drift(Duration time) const { return core_.Drift(time); }
  Duration Margin(Duration ttl) const { return core_.Margin(ttl); }
  static Duration AttemptTimeout(Duration ttl) { return CoreContext::AttemptTimeout(ttl); }
  Duration BackOff(int attempts) { return core_.BackOff(attempts); }
  double Random() { return core_.Random(); }
  void Arm(Timed& timed, Instant at) { core_.Arm(timed, at); }

  // acquire.cc: from the request to its answer
  void Ask(Waiter& waiter);
  void ArmWaiter(Waiter& waiter);
  void OnWaiterTimer(Waiter& waiter);
  void OnAcquireReply(const Op& op, OpId id, StoreReply& reply);
  void OnAcquireGranted(Waiter& waiter, const AcquireGranted& granted, StoreTime time, Instant sent);
  void OnAcquireQueued(Waiter& waiter, AcquireQueued& queued, StoreTime time, Instant sent);
  void OnAcquireFailed(Waiter& waiter, const StoreFailed& failed);
  void RetryLater(Waiter& waiter, std::string trouble);
  void Refuse(Waiter& waiter, Refused refused);
  void Withdraw(Waiter& waiter);
  void Forget(Waiter& waiter);
  static std::optional<Duration> LookIn(std::optional<Duration> left, const std::vector<HolderView>& holders);
  template <typename Over, typename Why>
  bool TurnAway(Waiter& waiter, Over over, Why why);
  bool TurnAwayOneTries(Waiter& waiter, const std::vector<HolderView>& holders, std::optional<Duration> look_in,
                        uint32_t queue_length);
  void OnAcquireMismatch(Waiter& waiter, const AcquireMismatch& held);
  Refused WhyItEnds(const Asker& asker, const LockName& name, bool answered, const std::string& trouble) const;
  Instant EndOf(const Waiter& waiter, const Asker& asker) const;
  void LosePlace(Waiter& waiter);
  Instant Patience(const Waiter& waiter, const Asker& asker) const;
  void LeaveAttempt(Waiter& waiter);
  Instant StragglerUntil(const Waiter& waiter) const;

  // lease.cc: from the grant to its end
  enum class Arrival : uint8_t { kAnswer, kReply, kNotice, kTend };
  void Grant(Waiter& waiter, uint64_t token, StoreTime since, Duration ttl, Instant deadline, Arrival arrival);
  void GrantDetached(Waiter& waiter, Granted granted, Instant deadline);
  void GrantOnStream(Waiter& waiter, Granted granted, Instant deadline);
  void Promise(Session& session, Lease& lease, Granted& granted);
  void ArmLease(Lease& lease);
  void OnLeaseTimer(Lease& lease);
  void RenewSoon(Lease& lease);
  void SendRenewals();
  void PrefetchLeases(const std::vector<OwnerId>& owners) const;
  void OnRenewReply(const Op& op, OpId id, StoreReply& reply);
  void NoteEnd(Lease& lease, FactKind kind, LostReason reason, const std::string& cause);
  void MarkAtRisk(Lease& lease, const std::string& cause);
  void Lose(Lease& lease, LostReason reason, std::string cause);
  void ReleaseLease(Lease& lease, Listener listener, Duration block);
  void TakeBack(Lease& lease, Listener listener, bool lapsed);
  void EndLease(Lease& lease);
  void Forget(Lease& lease);
  Instant BelieveUntil(const Lease& lease) const;

  // askers.cc: who asks for what a waiter waits for
  Asker AskerOf(const Acquire& in) const;
  static std::vector<Asker>& AskersOf(Waiter& waiter);
  bool JoinRepeat(const Acquire& in);
  void Join(Waiter& waiter, const Acquire& in);
  void Unlist(const Waiter& waiter, const Listener& listener);
  void DropListener(Waiter& waiter, SessionId session);

  // bundle.cc: several locks, all or nothing
  std::string WhyNoBundle(const AcquireAll& in, Session* session) const;
  bool JoinBundle(const AcquireAll& in);
  void TryAll(Bundle& bundle);
  void AskForNext(Bundle& bundle);
  void OnAcquireAllReply(const Op& op, OpId id, StoreReply& reply);
  void OnBundleTimer(Bundle& bundle);
  void ArmBundle(Bundle& bundle);
  bool KeepPart(Bundle& bundle, size_t part, uint64_t token, StoreTime since, Instant deadline);
  void GrantPart(Waiter& waiter, const Granted& granted, Instant deadline);
  Duration HeldFor(Bundle& bundle) const;
  void TakeAnew(Bundle& bundle);
  void GrantAll(Bundle& bundle);
  void LosePart(Lease& lease, const std::string& cause);
  void RefuseAll(Bundle& bundle, const Refused& refused);
  void DropCaller(Bundle& bundle, SessionId session, const Refused* refused);
  void EndBundle(Bundle& bundle);
  void EndBundles(Session& session, const Refused* refused);
  void TellCaller(const Bundle& bundle, const Asker& caller, const Refused& refused);

  // reentry.cc: a lease that its session takes more than once
  bool Reenter(Session& session, const Acquire& in);
  bool LeaveOne(Lease& lease, RequestId request);
  void TellHolder(const Lease& lease, const Event& event);
  void Unlist(Lease& lease);
  static std::vector<Lease*> LeasesOf(const Session& session);
  void TakeAgain(Session& session, Lease& lease, RequestId request, Duration waited);

  // convert.cc
  bool IsGivenBack(const OwnerId& owner, uint64_t token) const;

  // force.cc: what an administrator takes away
  std::optional<uint64_t> TokenOf(const OwnerId& owner) const override;
  void ForceLease(const OwnerId& owner, const std::string& reason) override;
  std::optional<Instant> FreeAt(const OwnerId& owner) const override;
  bool IsWaiting(const OwnerId& owner) const override;

  // session.cc: promises and the life of streams
  void OnSessionTimer(Session& session);
  void PromiseOnHold(Session& session);
  void CollectLimits(Session& session, HeartbeatAck& ack);
  void DropCalls(SessionId session);
  void EndLeases(Session& session);
  void EndWaiters(Session& session, bool tell);
  void CloseSession(Session& session, StreamEnd why);
  void DrainNow();
  void FinishDrainWhenEmpty();
  void FinishDrain();

  // release.cc
  PendingRelease& StartGiveBack(const LockName& name, const OwnerId& owner, bool waiting, Duration block,
                                Duration lifetime, uint64_t only_token = 0) {
    return releases_.Start(name, owner, waiting, block, lifetime, only_token);
  }
  void PursueGiveBack(PendingRelease& release) { releases_.Pursue(release); }
  void OnReleaseTimer(PendingRelease& release);
  void OnReleaseReply(const Op& op, StoreReply& reply);
  void OnDowngradeReply(const Op& op, StoreReply& reply);
  void OnForceReply(const Op& op, StoreReply& reply);
  void OnReleased(const OwnerId& owner);
  void TakeNext(const Op& op, const std::vector<HolderView>& next, bool look);

  // queue.cc
  void LookBy(const LockName& name, Instant at) override;
  void JoinQueue(Waiter& waiter);
  void LeaveQueue(Waiter& waiter);
  void OnQueueTimer(LocalQueue& queue);
  void Tend(LocalQueue& queue);
  std::vector<OwnerId> WhomToAskFor(LocalQueue& queue) const;
  void OnBlockNotice(const GrantNotice& in);
  void OnTendReply(const Op& op, OpId id, StoreReply& reply);
  void RejoinAll(LocalQueue& queue);
  void HandOff(const LockName& name, const OwnerId& owner, uint64_t token, StoreTime since, Duration ttl,
               Instant deadline, Arrival arrival);
  bool GrantedRecently(const OwnerId& owner) { return past_grants_.Contains(owner); }
  void RememberGrant(const OwnerId& owner, Instant until, Instant promised_until = {}) {
    past_grants_.Remember(owner, until, promised_until);
  }
  Instant NoticeDeadline(const Waiter& waiter, StoreTime since, Duration ttl) const;
  Instant TendDeadline(Instant sent, StoreTime time, const HolderView& holder) const;

  CoreContext core_;
  // Names of parts of core_ for the files that are still Broker's own.
  const BrokerConfig& config_ = core_.config;
  const Instant& now_ = core_.now;
  StoreClock& clock_ = core_.clock;
  bool& store_up_ = core_.store_up;
  std::string& store_trouble_ = core_.store_trouble;
  Instant& down_since_ = core_.down_since;
  bool& draining_ = core_.draining;
  Timers& timers_ = core_.timers;

  bool drained_ = false;
  Instant drain_deadline_ = kNever;
  struct DrainTimer : Timed {
    DrainTimer() : Timed(TimerKind::kDrain) {}
  } drain_timer_;

  absl::btree_map<SessionId, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<OwnerId, std::unique_ptr<Lease>> leases_;
  absl::flat_hash_map<OwnerId, std::unique_ptr<Waiter>> waiters_;
  absl::btree_map<uint64_t, Waiter*> unplaced_;                 // by serial: without a place in the store's queue
  absl::btree_map<SessionId, Waiter*> detached_;                // calls that wait for a detached grant
  absl::btree_map<uint64_t, std::unique_ptr<Bundle>> bundles_;  // by serial
  absl::btree_map<SessionId, Bundle*> bundle_calls_;            // calls that wait for several detached grants
  absl::btree_map<LockName, std::unique_ptr<LocalQueue>> queues_;
  absl::btree_map<uint64_t, Lease*> at_risk_;  // by serial
  Renewals renewals_{core_};
  PastGrants past_grants_{core_};
  PendingReleases releases_{core_, *this};
  Watches watches_{core_};
  RenewCalls renew_calls_{core_, past_grants_, *this};
  Downgrades downgrades_{core_};
  ForceCalls force_calls_{core_, *this, past_grants_, releases_};
};

}  // namespace distlock::core
