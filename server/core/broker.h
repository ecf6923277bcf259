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
//  3. Whatever may exist in the store without a record here is being given back until the store has confirmed it.
//  4. No lease is renewed, and no grant accepted, at or after its D.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/broker_config.h"
#include "core/messages.h"
#include "core/records.h"
#include "core/store_clock.h"
#include "core/timers.h"

namespace distlock::core {

class Broker {
 public:
  explicit Broker(const BrokerConfig& config);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Expires all that is due at `now`, then handles the input. Appends to `effects`; their order is the order to perform
  // them in. A store command counts as sent at `now`: it must be handed to the store at once.
  void Step(Instant now, Input&& input, std::vector<Effect>& effects);

  // When Step is wanted next at the latest; kNever: no need.
  Instant NextDeadline() const { return timers_.Earliest(); }

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
  void Handle(Renew& in);
  void Handle(const WatchLock& in);
  void Handle(const Heartbeat& in);
  void Handle(const Goodbye& in);
  void Handle(const StreamEnded& in);
  void Handle(const Drain& in);
  void Handle(const StoreUp& in);
  void Handle(const StoreDown& in);
  void Handle(const ChannelUp&);
  void Handle(const GrantNotice& in);
  void Handle(const ChangeNotice& in);
  void Handle(Convert& in);
  void Handle(ForceRelease& in);
  void Handle(const ForceNotice& in);
  void Handle(StoreReply& in);
  template <typename T>
  void Tell(const Listener& to, T event) {
    if (to.session != 0) effects_->emplace_back(Notify{to.session, to.request, std::move(event)});
  }
  void Note(Fact fact) { effects_->emplace_back(std::move(fact)); }
  OpId SendOp(Op op);
  template <typename T>
  void Command(T command) {
    effects_->emplace_back(std::in_place_type<StoreCommand>, std::move(command));
  }
  void NoteSilence(const std::string& cause);
  Duration Drift(Duration time) const;
  Duration Margin(Duration ttl) const;
  Duration AttemptTimeout(Duration ttl) const;
  Duration BackOff(int attempts);
  double Random();  // [0, 1)
  void Arm(Timed& timed, Instant at);

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
  void ScheduleRenewal(Lease& lease, Instant sent);
  std::string RenewTrouble() const;
  void RenewSoon(Lease& lease);
  void SendRenewals();
  void SendRenewal();
  Lease* TakeDue();
  void FetchDue(size_t count) const;
  void FetchLeases(const std::vector<OwnerId>& owners) const;
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

  // renew_call.cc: Renew for detached leases
  void OnRenewCallTimer(RenewCall& call);
  void SendRenewCall(RenewCall& call);
  void OnRenewCallReply(const Op& op, OpId id, StoreReply& reply);
  void RefuseRenewCall(RenewCall& call, RefusalReason reason, std::string cause);

  // watch.cc: who is shown a lock's changes
  void OnWatchTimer(Watch& watch);
  void Look(Watch& watch);
  void LookAtAll();
  void OnWatchReply(const Op& op, OpId id, StoreReply& reply);
  void ShowTo(Watch& watch, OpId look, LockView view);
  void RefuseWatch(Watch& watch, const std::string& cause);
  void StopWatching(SessionId session);
  void EndWatches();

  // convert.cc
  void SendConvert(ConvertCall& call);
  void OnConvertTimer(ConvertCall& call);
  void OnConvertReply(const Op& op, OpId id, StoreReply& reply);
  void RefuseConvert(const Convert& call, RefusalReason reason, std::string cause);
  void Forget(ConvertCall& call);
  bool IsGivenBack(const OwnerId& owner, uint64_t token) const;

  // force.cc: what an administrator takes away
  void ForceLease(Lease& lease, const std::string& reason);
  bool MustWaitToForce(const OwnerId& owner) const;
  void PursueForce(ForceCall& call);
  void ArmForce(ForceCall& call, Instant at);
  void OnForceTimer(ForceCall& call);
  void OnForceReply(const Op& op, OpId id, StoreReply& reply);
  void AnswerForce(ForceCall& call, Event answer);

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

  // give_back.cc
  GiveBack& StartGiveBack(const LockName& name, const OwnerId& owner, bool waiting, Duration block, Duration lifetime,
                          uint64_t only_token = 0);
  void PursueGiveBack(GiveBack& give_back);
  void SendGiveBack(GiveBack& give_back);
  void HoldBack(GiveBack& give_back);
  void SendHeldBack();
  void SetOp(GiveBack& give_back, OpId op);
  void ArmGiveBack(GiveBack& give_back);
  void OnGiveBackTimer(GiveBack& give_back);
  void OnGiveBackReply(const Op& op, OpId id, StoreReply& reply);
  void AnswerGiveBack(GiveBack& give_back, bool was_holder);
  void FinishGiveBack(GiveBack& give_back);
  void TakeNext(const Op& op, const std::vector<HolderView>& next, bool look);

  // queue.cc
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
  bool GrantedRecently(const OwnerId& owner);
  void ForgetGrant(const OwnerId& owner);
  void RememberGrant(const OwnerId& owner, Instant until, Instant promised_until = {});
  Instant NoticeDeadline(const Waiter& waiter, StoreTime since, Duration ttl) const;
  Instant TendDeadline(Instant sent, StoreTime time, const HolderView& holder) const;

  const BrokerConfig config_;
  uint64_t random_state_;
  Instant now_{};
  std::vector<Effect>* effects_ = nullptr;  // during Step

  StoreClock clock_;
  bool store_up_ = false;
  std::string store_trouble_ = "not connected to the store yet";
  std::string renew_trouble_;  // of the last renewals that were answered; empty: none
  Instant down_since_{};
  Instant last_heard_{};

  bool draining_ = false;
  bool drained_ = false;
  Instant drain_deadline_ = kNever;
  struct DrainTimer : Timed {
    DrainTimer() : Timed(TimerKind::kDrain) {}
  } drain_timer_;

  OpId next_op_ = 1;
  uint64_t next_serial_ = 1;
  Timers timers_;
  absl::flat_hash_map<OpId, Op> ops_;
  absl::btree_map<SessionId, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<OwnerId, std::unique_ptr<Lease>> leases_;
  absl::flat_hash_map<OwnerId, std::unique_ptr<Waiter>> waiters_;
  absl::btree_map<uint64_t, Waiter*> unplaced_;                 // by serial: without a place in the store's queue
  absl::btree_map<SessionId, Waiter*> detached_;                // calls that wait for a detached grant
  absl::btree_map<uint64_t, std::unique_ptr<Bundle>> bundles_;  // by serial
  absl::btree_map<SessionId, Bundle*> bundle_calls_;            // calls that wait for several detached grants
  absl::flat_hash_map<OwnerId, std::unique_ptr<GiveBack>> give_backs_;
  size_t give_backs_sent_ = 0;                      // those with an op
  absl::btree_map<uint64_t, GiveBack*> held_back_;  // those to be sent when fewer are: first what a caller waits for
  absl::btree_map<LockName, std::unique_ptr<LocalQueue>> queues_;
  absl::btree_map<SessionId, std::unique_ptr<RenewCall>> renew_calls_;
  absl::btree_map<LockName, std::unique_ptr<Watch>> watches_;
  absl::btree_map<SessionId, Watch*> watching_;
  absl::btree_map<uint64_t, Lease*> at_risk_;  // by serial
  // Leases to be renewed, in order; null: one that is gone. The first has due_place due_from_.
  std::deque<Lease*> due_;
  uint64_t due_from_ = 0;
  struct SentRenewal {
    OpId op = 0;
    Instant until;  // others wait for its answer no longer
  };
  std::vector<SentRenewal> renewals_sent_;  // in order, at most kMaxRenewalsSent
  struct Pace : Timed {
    Pace() : Timed(TimerKind::kPace) {}
  } pace_;  // when the next of due_ may leave, answer or not
  absl::btree_map<std::pair<SessionId, RequestId>, std::unique_ptr<ConvertCall>> convert_calls_;
  absl::btree_map<std::pair<SessionId, RequestId>, std::unique_ptr<ForceCall>> force_calls_;
  absl::btree_map<OwnerId, PastGrant> recent_grants_;  // told here and renewed here no more, while they may last
  absl::btree_set<std::pair<Instant, OwnerId>> recent_order_;
};

}  // namespace distlock::core
