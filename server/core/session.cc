// SPDX-License-Identifier: Apache-2.0
//
// Broker: promises to clients, and the life of their streams.
#include <algorithm>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

void Broker::Handle(const OpenSession& in) {
  auto& session = sessions_[in.session];
  DISTLOCK_CHECK(session == nullptr);
  session = std::make_unique<Session>();
  session->serial = core_.NextSerial();
  session->id = in.session;
  session->kind = in.kind;
  session->heartbeat_at = now_;
  if (in.kind == SessionKind::kSession) {
    session->promised_until = now_ + config_.validity;
    Arm(*session, session->promised_until);
  }
  if (draining_) {
    Tell({in.session, 0}, Draining{std::max<Duration>(drain_deadline_ - now_, Duration::zero())});
  }
}

void Broker::Handle(const Heartbeat& in) {
  const auto found = sessions_.find(in.session);
  if (found == sessions_.end() || found->second->kind != SessionKind::kSession) return;
  Session& session = *found->second;
  session.heartbeat_seq = std::max(session.heartbeat_seq, in.seq);
  session.heartbeat_at = now_;
  session.promised_until = now_ + config_.validity;
  Arm(session, session.promised_until);
  HeartbeatAck ack{.seq = in.seq, .valid_for = config_.validity, .limits = {}};
  CollectLimits(session, ack);
  Tell({session.id, 0}, std::move(ack));
}

// Leases that end before the promise would. In calm times a lower bound of all ends spares the walk.
void Broker::CollectLimits(Session& session, HeartbeatAck& ack) {
  if (session.least_belief >= session.promised_until) return;
  session.least_belief = kNever;
  for (const auto& [request, lease] : session.leases) {
    const Instant until = BelieveUntil(*lease);
    session.least_belief = std::min(session.least_belief, until);
    if (until < session.promised_until) {
      ack.limits.push_back({request, std::max<Duration>(until - now_, Duration::zero())});
    }
  }
}

void Broker::OnSessionTimer(Session& session) {
  if (session.kind == SessionKind::kHold) return PromiseOnHold(session);
  Note({.kind = FactKind::kSessionLapsed, .name = {}, .detail = {}});
  const std::string cause = "no heartbeat for a whole validity";
  for (Lease* lease : LeasesOf(session)) {
    TellHolder(*lease, Lost{lease->name, lease->owner, lease->token, LostReason::kExpired, cause});
    NoteEnd(*lease, FactKind::kLost, LostReason::kExpired, cause);
  }
  EndBundles(session, nullptr);
  EndLeases(session);
  EndWaiters(session, /*tell=*/false);
  CloseSession(session, StreamEnd::kLapsed);
}

// A Hold stream has no heartbeat: the broker promises again every third of the validity, or of a ttl that is shorter.
void Broker::PromiseOnHold(Session& session) {
  for (auto& [request, lease] : session.leases) {
    const Duration valid_for = std::min(config_.validity, BelieveUntil(*lease) - now_);
    if (valid_for <= Duration::zero()) continue;
    lease->promised_until = std::max(lease->promised_until, now_ + valid_for);
    Tell(lease->listener, Renewed{lease->name, lease->owner, lease->token, valid_for});
  }
  if (session.leases.empty()) return;
  const Lease& lease = *session.leases.begin()->second;  // a Hold has one
  Arm(session, now_ + std::min(config_.validity, lease.ttl) / 3);
}

void Broker::EndLeases(Session& session) {
  for (Lease* lease : LeasesOf(session)) EndLease(*lease);
}

void Broker::EndWaiters(Session& session, bool tell) {
  std::vector<Waiter*> waiters;
  for (auto& [request, waiter] : session.waiters) {
    if (waiter->askers.front().listener.request == request) waiters.push_back(waiter);
  }
  for (Waiter* waiter : waiters) {
    if (tell) {
      Refuse(*waiter, Refused{.reason = RefusalReason::kDraining, .cause = {}, .holders = {}});
    } else {
      Withdraw(*waiter);
    }
  }
}

void Broker::DropCalls(SessionId session) {
  downgrades_.Drop(session);
  force_calls_.Drop(session);
}

void Broker::CloseSession(Session& session, StreamEnd why) {
  Tell({session.id, 0}, EndStream{why});
  timers_.Cancel(session);
  const SessionId id = session.id;
  DropCalls(id);
  sessions_.erase(id);
}

void Broker::Handle(const Goodbye& in) {
  const auto found = sessions_.find(in.session);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  EndBundles(session, nullptr);
  EndWaiters(session, /*tell=*/false);
  for (Lease* lease : LeasesOf(session)) ReleaseLease(*lease, Listener{}, Duration::zero());
  CloseSession(session, StreamEnd::kGoodbye);
}

void Broker::Handle(const StreamEnded& in) {
  DropCalls(in.session);
  if (const auto found = sessions_.find(in.session); found != sessions_.end()) {
    Session& session = *found->second;
    EndBundles(session, nullptr);
    EndWaiters(session, /*tell=*/false);
    EndLeases(session);
    timers_.Cancel(session);
    sessions_.erase(in.session);
    return;
  }
  if (const auto found = detached_.find(in.session); found != detached_.end()) {
    return DropListener(*found->second, in.session);
  }
  if (const auto found = bundle_calls_.find(in.session); found != bundle_calls_.end()) {
    return DropCaller(*found->second, in.session, nullptr);
  }
  if (renew_calls_.Drop(in.session)) return;
  watches_.StopWatching(in.session);
}

void Broker::Handle(const Drain& in) {
  const Instant deadline = now_ + in.timeout;
  if (draining_ && deadline >= drain_deadline_) return;
  draining_ = true;
  drain_deadline_ = deadline;
  if (!drained_) Arm(drain_timer_, deadline);
  const Refused draining{.reason = RefusalReason::kDraining, .cause = {}, .holders = {}};
  for (auto& [id, session] : sessions_) {
    Tell({id, 0}, Draining{in.timeout});
    EndBundles(*session, &draining);
    EndWaiters(*session, /*tell=*/true);
  }
  while (!bundles_.empty()) RefuseAll(*bundles_.begin()->second, draining);
  watches_.EndAll();
  while (!detached_.empty()) {
    Refuse(*detached_.begin()->second, Refused{.reason = RefusalReason::kDraining, .cause = {}, .holders = {}});
  }
}

// The drain timeout passed: what is left is lost, and freed when belief in it has ended. A store that does not answer
// cannot hold the drain up for longer than its timeout: the ttl frees what it could not confirm.
void Broker::DrainNow() {
  if (now_ >= drain_deadline_ + config_.validity + config_.store_timeout) return FinishDrain();
  Arm(drain_timer_, drain_deadline_ + config_.validity + config_.store_timeout);
  while (!sessions_.empty()) {
    Session& session = *sessions_.begin()->second;
    for (Lease* lease : LeasesOf(session)) {
      NoteEnd(*lease, FactKind::kLost, LostReason::kDrained, "drain timeout");
      TellHolder(*lease, Lost{lease->name, lease->owner, lease->token, LostReason::kDrained,
                              "the broker shut down and its drain timeout passed"});
      // Its client lives and believes until it hears of this.
      if (lease->on_disconnect == OnDisconnect::kRelease) lease->on_disconnect = OnDisconnect::kSafe;
    }
    EndLeases(session);
    EndWaiters(session, /*tell=*/false);
    CloseSession(session, StreamEnd::kDrained);
  }
}

void Broker::FinishDrainWhenEmpty() {
  if (!draining_ || drained_) return;
  if (!leases_.empty() || !waiters_.empty() || releases_.size() > 0 || !renew_calls_.empty()) return;
  if (!downgrades_.empty() || !force_calls_.empty()) return;
  FinishDrain();
}

void Broker::FinishDrain() {
  drained_ = true;
  timers_.Cancel(drain_timer_);
  // Streams stay open until the server stops: the locks of a session may live on other shards, still draining.
  core_.Announce(DrainComplete{});
}

}  // namespace distlock::core
