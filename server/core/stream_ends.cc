// SPDX-License-Identifier: Apache-2.0
//
// Broker: what the end of a stream, or of the broker itself, means for all parts.
#include <algorithm>
#include <vector>

#include "core/broker.h"

namespace distlock::core {
namespace {

Refused IsDraining() { return Refused{.reason = RefusalReason::kDraining, .cause = {}, .holders = {}}; }

}  // namespace

void Broker::OnTimer(Session& session) {
  if (session.kind == SessionKind::kHold) return sessions_.PromiseOnHold(session);
  core_.Note({.kind = FactKind::kSessionLapsed, .name = {}, .detail = {}});
  const std::string cause = "no heartbeat for a whole validity";
  for (Lease* lease : Leases::Of(session)) {
    leases_.TellHolder(*lease, Lost{lease->name, lease->owner, lease->token, LostReason::kExpired, cause});
    leases_.NoteEnd(*lease, FactKind::kLost, LostReason::kExpired, cause);
  }
  bundles_.OrphanAllOf(session, nullptr);
  EndLeases(session);
  OrphanWaiters(session, nullptr);
  Close(session, StreamEnd::kLapsed);
}

void Broker::Handle(const Goodbye& in) {
  Session* const session = sessions_.Find(in.session);
  if (session == nullptr) return;
  bundles_.EndAllOf(*session);
  for (Waiter* waiter : WaitersOf(*session)) waiters_.Withdraw(*waiter);
  for (Lease* lease : Leases::Of(*session)) {
    leases_.Release(*lease, Listener{}, Duration::zero(), /*confirms=*/false, /*keeps_min_hold=*/true);
  }
  Close(*session, StreamEnd::kGoodbye);
}

void Broker::Handle(const StreamEnded& in) {
  DropCalls(in.session);
  if (Session* const session = sessions_.Find(in.session); session != nullptr) {
    bundles_.OrphanAllOf(*session, nullptr);
    OrphanWaiters(*session, nullptr);
    EndLeases(*session);
    return sessions_.Forget(*session);
  }
  if (waiters_.DropCall(in.session) || bundles_.DropCall(in.session) || renew_calls_.Drop(in.session)) return;
  watches_.StopWatching(in.session);
}

// As the end of the stream, but what would wait for the end of belief waits no more.
void Broker::Handle(const HolderDied& in) {
  if (Session* const session = sessions_.Find(in.session); session != nullptr) {
    bundles_.OrphanAllOf(*session, nullptr);
    OrphanWaiters(*session, nullptr);
    EndLeases(*session);
    Close(*session, StreamEnd::kHolderDied);
  }
  const uint32_t freed = leases_.FreeEndingOf(in.session);
  if (freed > 0) core_.Note({.kind = FactKind::kHolderDied, .count = freed, .name = {}, .detail = in.who});
}

void Broker::EndLeases(const Session& session) {
  for (Lease* lease : Leases::Of(session)) leases_.End(*lease);
}

std::vector<Waiter*> Broker::WaitersOf(const Session& session) {
  std::vector<Waiter*> waiters;
  for (const auto& [request, waiter] : session.waiters) {
    if (waiter->callers.front().listener.request == request) waiters.push_back(waiter);
  }
  return waiters;
}

// Their clients did not give them up: see Waiters::Orphan.
void Broker::OrphanWaiters(const Session& session, const Refused* refused) {
  for (Waiter* waiter : WaitersOf(session)) waiters_.Orphan(*waiter, refused);
}

void Broker::Close(Session& session, StreamEnd why) {
  const SessionId id = session.id;
  sessions_.Close(session, why);
  DropCalls(id);
}

void Broker::DropCalls(SessionId session) {
  downgrades_.Drop(session);
  force_calls_.Drop(session);
  adoptions_.Drop(session);
}

void Broker::Handle(const Drain& in) {
  const Instant deadline = core_.now + in.timeout;
  if (core_.draining && deadline >= drain_deadline_) return;
  core_.draining = true;
  drain_deadline_ = deadline;
  if (!drained_) core_.Arm(drain_timer_, deadline);
  const Refused draining = IsDraining();
  for (const auto& [id, session] : sessions_.all()) {
    core_.Tell({id, 0}, Draining{in.timeout});
    bundles_.OrphanAllOf(*session, &draining);
    OrphanWaiters(*session, &draining);
  }
  bundles_.RefuseEvery(draining);
  watches_.EndAll();
  waiters_.RefuseAllDetached(draining);
}

// The drain timeout passed: the leases that are left are lost, and freed when belief in them has ended. Those that
// their clients resume are kept and renewed to the very end. A store that does not answer cannot delay the drain for
// longer than its timeout: the ttl frees what it could not confirm.
void Broker::EndDrain() {
  const Instant last = drain_deadline_ + core_.config.validity + core_.config.store_timeout;
  if (core_.now >= last) return FinishDrain();
  core_.Arm(drain_timer_, last);
  drain_timed_out_ = true;
  std::vector<SessionId> sessions;
  for (const auto& [id, session] : sessions_.all()) sessions.push_back(id);
  for (const SessionId id : sessions) {
    Session& session = *sessions_.Find(id);
    for (Lease* lease : Leases::Of(session)) {
      if (lease->resume) continue;
      leases_.NoteEnd(*lease, FactKind::kLost, LostReason::kDrained, "drain timeout");
      leases_.TellHolder(*lease, Lost{lease->name, lease->owner, lease->token, LostReason::kDrained,
                                      "the broker shut down and its drain timeout passed"});
      // Its client lives and believes until it hears of this.
      if (lease->on_disconnect == OnDisconnect::kRelease) lease->on_disconnect = OnDisconnect::kSafe;
      leases_.End(*lease);
    }
    OrphanWaiters(session, nullptr);
    if (session.leases.empty()) Close(session, StreamEnd::kDrained);
  }
}

void Broker::FinishDrainWhenEmpty() {
  if (!core_.draining || drained_) return;
  if (waiters_.size() + releases_.size() > 0) return;
  if (!renew_calls_.empty() || !downgrades_.empty() || !adoptions_.empty() || !force_calls_.empty()) return;
  if (leases_.size() == 0 || (drain_timed_out_ && leases_.AllAreResumed())) FinishDrain();
}

void Broker::FinishDrain() {
  drained_ = true;
  core_.timers.Cancel(drain_timer_);
  // Streams stay open until the server stops: the locks of a session may live on other shards, still draining.
  core_.Announce(DrainComplete{});
}

}  // namespace distlock::core
