// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "lock_table.h"

namespace distlock::internal {
namespace {

constexpr int64_t kDefaultValidity = 3'000'000'000;
constexpr int64_t kShortestInterval = 5'000'000;

}  // namespace

void LockTable::OnStarted(int64_t now_ns, const std::optional<ProcessClaim>& claim) {
  Link& link = current();
  link.session = SessionBelief(now_ns, AddNs(now_ns, options_.connect_timeout_ns) - now_ns);  // it may be endless
  link.streaming = true;
  link.opened = link.acked = link.adopts = link.draining = link.leaving = link.heartbeat_due = false;
  link.authenticates = false;
  link.shown = std::nullopt;
  link.proof_id = 0;
  link.commands.Clear();
  link.commands.Open(next_id_++, options_.label, sessions_++, claim);
  Wake(link.session.deadline_ns());
  for (auto& [id, lease] : live_) {  // in the order of the requests
    lease->stays = false;
    if (lease->phase == Lease::Phase::kWaiting && lease->link == nullptr) Send(*lease, now_ns);
  }
  if (closed_) Leave(link);
}

void LockTable::OnEvent(const v1::SessionEvent& event, int64_t now_ns, Effects& fx, int number) {
  Link& link = at(number);
  link.commands.Answered(event.id());
  switch (event.event_case()) {
    case v1::SessionEvent::kGranted:
      return OnGrant(link, event.id(), event.granted(), now_ns, fx);
    case v1::SessionEvent::kReleased:
      return OnReleased(link, event.id(), ToOutcome(event.released().outcome()), fx);
    case v1::SessionEvent::kDowngraded:
      OnDowngraded(event.id(), std::nullopt, now_ns, fx);
      return;
    case v1::SessionEvent::kRefused:
      if (event.id() == link.proof_id) link.shown = std::nullopt;  // it is brought again with a later heartbeat
      return OnRefused(link, event.id(), event.refused(), now_ns, fx);
    case v1::SessionEvent::kHeartbeatAck:
      return OnAck(link, event.heartbeat_ack(), now_ns, fx);
    case v1::SessionEvent::kLost:
      return OnLost(link, event.id(), event.lost(), now_ns, fx);
    case v1::SessionEvent::kOpened:
      return OnOpened(link, event.opened(), now_ns, fx);
    case v1::SessionEvent::kDraining:
      return OnDraining(link, Duration(ToNs(event.draining().time_left())), now_ns, fx);
    default:
      return OnNews(link, event, fx);
  }
}

void LockTable::OnNews(const Link& link, const v1::SessionEvent& event, Effects& fx) {
  const LeasePtr lease = Find(event.id());
  if (lease == nullptr || lease->link != &link) return;
  if (event.has_at_risk()) {
    lease->at_risk.store(true, std::memory_order_relaxed);
    lease->risk = event.at_risk().cause();
  }
  if (event.has_renewed()) lease->at_risk.store(false, std::memory_order_relaxed);
  if (event.has_queued()) {
    Lease& leader = LeaderOf(*lease);
    leader.stranded_ns = kNever;
    leader.turned_away = false;
    HasArrived(*lease);
    Reschedule(leader);
    if (lease->spec->on_queued && !lease->abandoned) fx.queued.emplace_back(lease->spec, ToQueued(event.queued()));
  }
}

void LockTable::OnOpened(Link& link, const v1::SessionOpened& opened, int64_t now_ns, Effects& fx) {
  link.opened = true;
  const auto can = [&](const char* what) {
    return std::find(opened.features().begin(), opened.features().end(), what) != opened.features().end();
  };
  link.adopts = can("adopt");
  link.authenticates = can("authenticate");
  link.validity_ns = ToNs(opened.validity());
  if (link.validity_ns <= 0) link.validity_ns = kDefaultValidity;
  const int64_t interval_ns =
      opened.has_heartbeat_interval() ? ToNs(opened.heartbeat_interval()) : link.validity_ns / 3;
  link.heartbeat_interval_ns = std::max(interval_ns, kShortestInterval);
  link.heartbeat_at_ns = AddNs(link.session.last_sent_ns(), link.heartbeat_interval_ns);
  // Late: much of what this session may be believed in is gone already.
  if (now_ns - link.session.last_sent_ns() > link.validity_ns / 6) link.heartbeat_at_ns = now_ns;
  link.session.Ack(0, link.validity_ns, now_ns);
  Wake(std::min(link.heartbeat_at_ns, link.session.deadline_ns()));
  link.commands.SetMessageBytes(opened.max_message_bytes());
  link.commands.SetMostAhead(opened.max_unanswered());
  if (&link == &current()) SendMoves(now_ns, fx);
  for (auto& [id, lease] : live_) {
    if (lease->link != &link || lease->turned_away || lease->stranded_ns == kNever) continue;
    lease->stranded_ns = kNever;
    Reschedule(*lease);
  }
}

void LockTable::OnGrant(Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr && OnAdopted(link, id, grant, now_ns, fx)) return;
  if (&link != &current() && (lease == nullptr || lease->link != &link)) return OnGrantByFormer(link, id, lease.get());
  if (lease == nullptr || lease->link != &link || lease->phase != Lease::Phase::kWaiting) return;
  lease->former = nullptr;
  lease->crossed = false;
  Schedule(*lease, kNever);
  if (lease->cancelling || lease->abandoned) {
    link.commands.Release(next_id_++, id);
    Refuse(*lease,
           {.reason = RefusalReason::kCancelled, .message = "cancelled; the grant that crossed it is given back"}, fx);
    live_.erase(id);
    return;
  }
  lease->granted = {grant.lease_id(), grant.holder_id()};
  lease->token = grant.fencing_token();
  lease->waited_ns = ToNs(grant.waited());
  const int64_t deadline_ns = link.session.DeadlineOf(grant.echo_seq(), ToNs(grant.valid_for()));
  lease->belief.Set(deadline_ns, now_ns);
  lease->deadline_ns.store(deadline_ns, std::memory_order_release);
  AskForHeartbeat(link, deadline_ns, now_ns);
  lease->hold_count = std::max(grant.hold_count(), 1);  // whatever the broker says
  lease->phase = Lease::Phase::kGranted;
  DeliverGroup(lease, now_ns, fx);
}

void LockTable::OnRefused(Link& link, int64_t id, const v1::Refusal& wire, int64_t now_ns, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr) {
    if (OnNotAdopted(link, id, wire, now_ns, fx) || OnDowngraded(id, ToRefusal(wire), now_ns, fx)) return;
    const bool gone = wire.reason() == v1::REFUSAL_REASON_NOT_HOLDER;
    OnReleased(link, id, gone ? ReleaseOutcome::kAlreadyGone : ReleaseOutcome::kUnknown, fx);
    return;
  }
  if (lease->link != &link || lease->phase == Lease::Phase::kHeld) return;
  if (wire.reason() == v1::REFUSAL_REASON_DRAINING && TurnAway(link, *lease, wire, now_ns)) return;
  const Refusal refusal = ToRefusal(wire);
  Refuse(*lease, refusal, fx);
  live_.erase(id);
  RefuseGroup(*lease, refusal, fx);
}

// The broker drains: has the acquire ask another one. False: the refusal is the answer to it.
bool LockTable::TurnAway(Link& link, Lease& lease, const v1::Refusal& refusal, int64_t now_ns) {
  if (lease.cancelling || lease.abandoned || !options_.reissue_waits) return false;
  if (options_.brokers == 1 && HoldsAnything(link)) return false;
  last_failure_ = ToRefusal(refusal);
  Lease& leader = LeaderOf(lease);
  leader.turned_away = true;
  if (leader.stranded_ns == kNever) leader.stranded_ns = now_ns;
  Reschedule(leader);
  if (options_.brokers == 1) {
    Leave(link);
    return true;
  }
  for (const LeasePtr& part : GroupOf(lease)) part->link = nullptr;
  link.draining = true;
  MoveOn(now_ns);
  if (&link != &current() && current().streaming) Send(leader, now_ns);
  return true;
}

bool LockTable::HoldsAnything(const Link& link) const {
  return std::any_of(live_.begin(), live_.end(), [&link](const auto& entry) {
    return entry.second->phase == Lease::Phase::kHeld && entry.second->link == &link;
  });
}

void LockTable::OnReleased(const Link& link, int64_t id, ReleaseOutcome outcome, Effects& fx) {
  const auto found = releases_.find(id);
  if (found == releases_.end()) return OnReleasedByLeaseId(link, id, fx);
  PendingRelease answered = std::move(found->second);
  releases_.erase(found);
  if (const auto twin = releases_.find(answered.twin); twin != releases_.end()) {
    if (answered.callback) twin->second.callback = std::move(answered.callback);  // one of them has it
    twin->second.of_twin = outcome;
    return;
  }
  // Only one of the sessions had the lease.
  if (answered.of_twin && outcome == ReleaseOutcome::kAlreadyGone) outcome = *answered.of_twin;
  if (answered.of_twin == ReleaseOutcome::kReleased) outcome = ReleaseOutcome::kReleased;
  fx.released.emplace_back(std::move(answered.callback), outcome);
}

bool LockTable::OnDowngraded(int64_t id, std::optional<Refusal> refusal, int64_t now_ns, Effects& fx) {
  const auto found = downgrades_.find(id);
  if (found == downgrades_.end() || found->second.link == nullptr) return false;
  PendingDowngrade answered = std::move(found->second);
  downgrades_.erase(found);
  for (const LeasePtr& hold : HoldsOf(answered.lease)) {
    if (refusal) {
      hold->mode_unsure = true;
    } else {
      hold->downgraded = true;
    }
  }
  fx.changed.emplace_back(std::move(answered.callback), std::move(refusal));
  if (moving_) SendMoves(now_ns, fx);
  return true;
}

// A Released event under the acquire's own id: another program that knows the lease_id released the lease.
void LockTable::OnReleasedByLeaseId(const Link& link, int64_t id, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr || lease->link != &link) return;
  if (lease->phase == Lease::Phase::kHeld) {
    lease->link = nullptr;  // this session has nothing to give back
    Lose(lease, EndCause::kReleased, "released by its lease_id", fx);
  } else if (lease->phase == Lease::Phase::kGranted) {
    LoseBeforeUse(lease, "released by its lease_id", fx);
  }
}

void LockTable::OnAck(Link& link, const v1::HeartbeatAck& ack, int64_t now_ns, Effects& fx) {
  if (!link.session.Ack(ack.seq(), ToNs(ack.valid_for()), now_ns)) return;
  link.acked = true;
  last_failure_.reset();
  NoteSilence();
  for (const v1::LeaseLimit& limit : ack.limits()) {
    const LeasePtr lease = Find(limit.acquire_id());
    if (lease == nullptr || lease->link != &link) continue;
    lease->limited_by_seq = ack.seq();
    lease->belief.Set(link.session.DeadlineOf(ack.seq(), ToNs(limit.valid_for())), now_ns);
  }
  const int64_t deadline_ns = link.session.DeadlineOf(ack.seq(), ToNs(ack.valid_for()));
  int64_t first_ns = kNever;
  for (auto& [id, lease] : live_) {
    if (lease->link != &link || lease->phase == Lease::Phase::kWaiting) continue;
    if (lease->limited_by_seq != ack.seq()) lease->belief.Extend(deadline_ns, now_ns);
    if (lease->belief.lapsed()) continue;
    lease->deadline_ns.store(lease->belief.deadline_ns(), std::memory_order_release);
    first_ns = std::min(first_ns, lease->belief.deadline_ns());
  }
  for (auto& [id, lease] : live_) {
    if (lease->link == &link && lease->phase == Lease::Phase::kGranted) DeliverGroup(lease, now_ns, fx);
  }
  SweepLeases(now_ns, fx);
  Wake(lease_deadline_ns_);
  // A lease with a short ttl may have a deadline within the heartbeat interval: it needs its next ack sooner.
  if (first_ns != kNever) BeatHalfWay(link, first_ns, now_ns);
}

void LockTable::BeatHalfWay(Link& link, int64_t deadline_ns, int64_t now_ns) {
  const int64_t half_way_ns = now_ns + std::max((deadline_ns - now_ns) / 2, kShortestInterval);
  link.heartbeat_at_ns = std::min(link.heartbeat_at_ns, half_way_ns);
  Wake(link.heartbeat_at_ns);
}

void LockTable::OnLost(Link& link, int64_t id, const v1::LeaseLost& lost, int64_t now_ns, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr || lease->link != &link) return;
  if (lease->phase != Lease::Phase::kHeld) return LoseBeforeUse(lease, lost.message(), fx);
  if (lost.reason() == v1::LOST_REASON_MOVED && lease->move != nullptr) {
    lease->link = nullptr;  // by the move that is under way: no later ack of this session speaks for the lease
    return;
  }
  if (lost.reason() == v1::LOST_REASON_DRAINED && Survives(*lease, now_ns)) return Orphan(*lease, lost.message());
  lease->link = nullptr;  // this session has nothing to give back
  Lose(lease, ToEndCause(lost.reason()), lost.message(), fx);
}

void LockTable::LoseBeforeUse(const LeasePtr& lease, const std::string& how, Effects& fx) {
  const Refusal refusal{.reason = RefusalReason::kLeaseLost, .message = absl::StrCat("lost before use: ", how)};
  Refuse(*lease, refusal, fx);
  live_.erase(lease->id);
  RefuseGroup(*lease, refusal, fx);
}

void LockTable::OnBroken(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx, int number) {
  Link& link = at(number);
  for (auto it = moves_.begin(); it != moves_.end();) {
    const std::shared_ptr<Move> move = it++->second;
    if (move->through == &link) EndMove(*move);  // to be asked again
  }
  for (auto it = live_.begin(); it != live_.end();) {
    const LeasePtr lease = it++->second;
    if (lease->former == &link) {
      lease->former = nullptr;
      lease->crossed = false;
    }
    const bool unsent = lease->link == nullptr && lease->phase == Lease::Phase::kWaiting;
    if (lease->link != &link && !(unsent && number == present_)) continue;
    if (lease->phase == Lease::Phase::kHeld) {
      if (Survives(*lease, now_ns)) {
        Orphan(*lease, why);
        continue;
      }
      const EndCause end = lease->belief.Believes(now_ns) ? cause : EndCause::kLapsed;
      lease->link = nullptr;
      Lose(lease, end, why, fx);
      continue;
    }
    if (lease->cancelling) {
      Refuse(*lease, {.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"}, fx);
    } else if (lease->abandoned) {
      Refuse(*lease, {}, fx);
    } else if (!options_.reissue_waits) {
      Refuse(*lease, {.reason = RefusalReason::kUnreachable, .message = why}, fx);
    } else {
      lease->phase = Lease::Phase::kWaiting;
      lease->link = nullptr;
      if (lease->stranded_ns == kNever) lease->stranded_ns = now_ns;
      Reschedule(*lease);
      continue;
    }
    live_.erase(lease->id);
  }
  link.streaming = link.opened = link.draining = link.leaving = link.heartbeat_due = false;
  NoteSilence();
  link.commands.Clear();
  AnswerPending(link, why, fx);
  MoveOn(now_ns);
}

// Answers the releases and downgrades that the broker of this link will not answer any more.
void LockTable::AnswerPending(const Link& link, const std::string& why, Effects& fx) {
  std::vector<int64_t> unanswered;
  for (const auto& [id, release] : releases_) {
    if (release.link == &link) unanswered.push_back(id);
  }
  for (const int64_t id : unanswered) OnReleased(link, id, ReleaseOutcome::kUnknown, fx);
  for (auto it = downgrades_.begin(); it != downgrades_.end();) {
    const auto current = it++;
    if (current->second.link != &link) continue;
    for (const LeasePtr& hold : HoldsOf(current->second.lease)) hold->mode_unsure = true;
    fx.changed.emplace_back(std::move(current->second.callback),
                            Refusal{.reason = RefusalReason::kUnreachable, .message = why});
    downgrades_.erase(current);
  }
}

void LockTable::OnStatus(Refusal why, Effects& fx) {
  last_failure_ = std::move(why);
  if (!IsPermanent(last_failure_->reason)) return;
  for (auto it = live_.begin(); it != live_.end();) {
    const auto current = it++;
    if (current->second->phase == Lease::Phase::kHeld || current->second->link != nullptr) continue;
    Refuse(*current->second, *last_failure_, fx);
    live_.erase(current);
  }
}

}  // namespace distlock::internal
