// SPDX-License-Identifier: Apache-2.0
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "lock_table.h"

namespace distlock::internal {
namespace {

constexpr int64_t kDefaultValidity = 3'000'000'000;
constexpr int64_t kShortestInterval = 5'000'000;

}  // namespace

void LockTable::OnStarted(int64_t now_ns) {
  session_ = SessionBelief(now_ns, AddNs(now_ns, options_.connect_timeout_ns) - now_ns);  // the timeout may be endless
  streaming_ = true;
  opened_ = acked_ = draining_ = leaving_ = heartbeat_due_ = false;
  commands_.Clear();
  commands_.Open(next_id_++, options_.label);
  Wake(session_.deadline_ns());
  for (auto& [id, lease] : live_) Send(*lease, now_ns);  // in the order of the requests
  if (closed_) Leave();
}

void LockTable::OnEvent(const v1::SessionEvent& event, int64_t now_ns, Effects& fx) {
  switch (event.event_case()) {
    case v1::SessionEvent::kGranted:
      return OnGrant(event.id(), event.granted(), now_ns, fx);
    case v1::SessionEvent::kReleased:
      return OnReleased(event.id(), ToOutcome(event.released().outcome()), fx);
    case v1::SessionEvent::kDowngraded:
      OnDowngraded(event.id(), std::nullopt, fx);
      return;
    case v1::SessionEvent::kRefused:
      return OnRefused(event.id(), event.refused(), now_ns, fx);
    case v1::SessionEvent::kHeartbeatAck:
      return OnAck(event.heartbeat_ack(), now_ns, fx);
    case v1::SessionEvent::kLost:
      return OnLost(event.id(), event.lost(), fx);
    case v1::SessionEvent::kOpened:
      return OnOpened(event.opened(), now_ns, fx);
    case v1::SessionEvent::kDraining:
      draining_ = true;
      fx.draining = Duration(ToNs(event.draining().time_left()));
      return;
    default:
      break;
  }
  const LeasePtr lease = Find(event.id());
  if (lease == nullptr || !lease->sent) return;
  if (event.has_at_risk()) {
    lease->at_risk.store(true, std::memory_order_relaxed);
    lease->risk = event.at_risk().cause();
  }
  if (event.has_renewed()) lease->at_risk.store(false, std::memory_order_relaxed);
  if (event.has_queued()) {
    Lease& leader = LeaderOf(*lease);
    leader.stranded_ns = kNever;
    leader.turned_away = false;
    Reschedule(leader);
    if (lease->spec->on_queued && !lease->abandoned) fx.queued.emplace_back(lease->spec, ToQueued(event.queued()));
  }
}

void LockTable::OnOpened(const v1::SessionOpened& opened, int64_t now_ns, Effects& fx) {
  opened_ = true;
  validity_ns_ = ToNs(opened.validity());
  if (validity_ns_ <= 0) validity_ns_ = kDefaultValidity;
  const int64_t interval_ns = opened.has_heartbeat_interval() ? ToNs(opened.heartbeat_interval()) : validity_ns_ / 3;
  heartbeat_interval_ns_ = std::max(interval_ns, kShortestInterval);
  heartbeat_at_ns_ = AddNs(session_.last_sent_ns(), heartbeat_interval_ns_);
  session_.Ack(0, validity_ns_, now_ns);
  Wake(std::min(heartbeat_at_ns_, session_.deadline_ns()));
  commands_.SetMessageBytes(opened.max_message_bytes());
  SendHeldBack(now_ns, fx);
  for (auto& [id, lease] : live_) {
    if (!lease->sent || lease->turned_away || lease->stranded_ns == kNever) continue;
    lease->stranded_ns = kNever;
    Reschedule(*lease);
  }
}

void LockTable::OnGrant(int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr || !lease->sent || lease->phase != Lease::Phase::kWaiting) return;
  Schedule(*lease, kNever);
  if (lease->cancelling || lease->abandoned) {
    commands_.Release(next_id_++, id);
    Refuse(*lease,
           {.reason = RefusalReason::kCancelled, .message = "cancelled; the grant that crossed it is given back"}, fx);
    live_.erase(id);
    return;
  }
  lease->lease_id = grant.lease_id();
  lease->holder_id = grant.holder_id();
  lease->token = grant.fencing_token();
  lease->waited_ns = ToNs(grant.waited());
  const int64_t deadline_ns = session_.DeadlineOf(grant.echo_seq(), ToNs(grant.valid_for()));
  lease->belief.Set(deadline_ns, now_ns);
  lease->deadline_ns.store(deadline_ns, std::memory_order_release);
  if (deadline_ns - now_ns < validity_ns_ / 2) AskForHeartbeat(now_ns);
  lease->hold_count = std::max(grant.hold_count(), 1);  // whatever the broker says
  lease->phase = Lease::Phase::kGranted;
  DeliverGroup(lease, now_ns, fx);
}

void LockTable::OnRefused(int64_t id, const v1::Refusal& wire, int64_t now_ns, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr) {
    if (OnDowngraded(id, ToRefusal(wire), fx)) return;
    const bool gone = wire.reason() == v1::REFUSAL_REASON_NOT_HOLDER;
    OnReleased(id, gone ? ReleaseOutcome::kAlreadyGone : ReleaseOutcome::kUnknown, fx);
    return;
  }
  if (!lease->sent || lease->phase == Lease::Phase::kHeld) return;
  const bool wanted = !lease->cancelling && !lease->abandoned;
  if (wire.reason() == v1::REFUSAL_REASON_DRAINING && wanted && options_.reissue_waits && held_ == 0) {
    // This client holds nothing at the draining broker: leave it and ask the next one.
    last_failure_ = ToRefusal(wire);
    Lease& leader = LeaderOf(*lease);
    leader.turned_away = true;
    if (leader.stranded_ns == kNever) leader.stranded_ns = now_ns;
    Reschedule(leader);
    Leave();
    return;
  }
  const Refusal refusal = ToRefusal(wire);
  Refuse(*lease, refusal, fx);
  live_.erase(id);
  RefuseGroup(*lease, refusal, fx);
}

void LockTable::OnReleased(int64_t id, ReleaseOutcome outcome, Effects& fx) {
  const auto found = releases_.find(id);
  if (found == releases_.end()) return OnReleasedByLeaseId(id, fx);
  fx.released.emplace_back(std::move(found->second), outcome);
  releases_.erase(found);
}

bool LockTable::OnDowngraded(int64_t id, std::optional<Refusal> refusal, Effects& fx) {
  const auto found = downgrades_.find(id);
  if (found == downgrades_.end()) return false;
  fx.downgraded.emplace_back(std::move(found->second), std::move(refusal));
  downgrades_.erase(found);
  return true;
}

// A Released event under the acquire's own id: another program that knows the lease_id released the lease.
void LockTable::OnReleasedByLeaseId(int64_t id, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr || !lease->sent) return;
  if (lease->phase == Lease::Phase::kHeld) {
    End(*lease, EndCause::kReleased, "released by its lease_id", fx);
    live_.erase(id);
  } else if (lease->phase == Lease::Phase::kGranted) {
    LoseBeforeUse(lease, "released by its lease_id", fx);
  }
}

void LockTable::OnAck(const v1::HeartbeatAck& ack, int64_t now_ns, Effects& fx) {
  if (!session_.Ack(ack.seq(), ToNs(ack.valid_for()), now_ns)) return;
  acked_ = true;
  last_failure_.reset();
  quiet_.store(false, std::memory_order_relaxed);
  for (const v1::LeaseLimit& limit : ack.limits()) {
    const LeasePtr lease = Find(limit.acquire_id());
    if (lease == nullptr) continue;
    lease->limited_by_seq = ack.seq();
    lease->belief.Set(session_.DeadlineOf(ack.seq(), ToNs(limit.valid_for())), now_ns);
  }
  const int64_t deadline_ns = session_.DeadlineOf(ack.seq(), ToNs(ack.valid_for()));
  for (auto& [id, lease] : live_) {
    if (lease->phase == Lease::Phase::kWaiting) continue;
    if (lease->limited_by_seq != ack.seq()) lease->belief.Extend(deadline_ns, now_ns);
    if (!lease->belief.lapsed()) {
      lease->deadline_ns.store(lease->belief.deadline_ns(), std::memory_order_release);
    }
  }
  for (auto& [id, lease] : live_) {
    if (lease->phase == Lease::Phase::kGranted) DeliverGroup(lease, now_ns, fx);
  }
  SweepLeases(now_ns, fx);
  Wake(lease_deadline_ns_);
  // A lease with a short ttl may have a deadline within the heartbeat interval: it needs its next ack sooner.
  if (lease_deadline_ns_ == kNever) return;
  const int64_t half_way_ns = now_ns + std::max((lease_deadline_ns_ - now_ns) / 2, kShortestInterval);
  heartbeat_at_ns_ = std::min(heartbeat_at_ns_, half_way_ns);
  Wake(heartbeat_at_ns_);
}

void LockTable::OnLost(int64_t id, const v1::LeaseLost& lost, Effects& fx) {
  const LeasePtr lease = Find(id);
  if (lease == nullptr || !lease->sent) return;
  if (lease->phase != Lease::Phase::kHeld) return LoseBeforeUse(lease, lost.message(), fx);
  End(*lease, ToEndCause(lost.reason()), lost.message(), fx);
  live_.erase(id);
}

void LockTable::LoseBeforeUse(const LeasePtr& lease, const std::string& how, Effects& fx) {
  const Refusal refusal{.reason = RefusalReason::kLeaseLost, .message = absl::StrCat("lost before use: ", how)};
  Refuse(*lease, refusal, fx);
  live_.erase(lease->id);
  RefuseGroup(*lease, refusal, fx);
}

void LockTable::OnBroken(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx) {
  streaming_ = opened_ = draining_ = leaving_ = heartbeat_due_ = false;
  quiet_.store(false, std::memory_order_relaxed);
  commands_.Clear();
  lease_deadline_ns_ = kNever;
  for (auto it = live_.begin(); it != live_.end();) {
    const auto current = it++;
    Lease& lease = *current->second;
    if (lease.phase == Lease::Phase::kHeld) {
      End(lease, lease.belief.Believes(now_ns) ? cause : EndCause::kLapsed, why, fx);
    } else if (lease.cancelling) {
      Refuse(lease, {.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"}, fx);
    } else if (lease.abandoned) {
      Refuse(lease, {}, fx);
    } else if (!options_.reissue_waits) {
      Refuse(lease, {.reason = RefusalReason::kUnreachable, .message = why}, fx);
    } else {
      lease.phase = Lease::Phase::kWaiting;
      lease.sent = false;
      if (lease.stranded_ns == kNever) lease.stranded_ns = now_ns;
      Reschedule(lease);
      continue;
    }
    live_.erase(current);
  }
  for (auto& [id, callback] : releases_) fx.released.emplace_back(std::move(callback), ReleaseOutcome::kUnknown);
  releases_.clear();
  for (auto& [id, callback] : downgrades_) {
    fx.downgraded.emplace_back(std::move(callback), Refusal{.reason = RefusalReason::kUnreachable, .message = why});
  }
  downgrades_.clear();
}

void LockTable::OnStatus(Refusal why, Effects& fx) {
  last_failure_ = std::move(why);
  if (!IsPermanent(last_failure_->reason)) return;
  for (auto& [id, lease] : live_) Refuse(*lease, *last_failure_, fx);
  live_.clear();
}

}  // namespace distlock::internal
