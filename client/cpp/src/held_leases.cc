// SPDX-License-Identifier: Apache-2.0
#include "held_leases.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distlock::internal {
namespace {

// The outcome that counts of those in two sessions, of which only one has had the lease.
ReleaseOutcome Better(ReleaseOutcome a, ReleaseOutcome b) {
  for (const ReleaseOutcome best : {ReleaseOutcome::kReleased, ReleaseOutcome::kStillHeld, ReleaseOutcome::kUnknown}) {
    if (a == best || b == best) return best;
  }
  return ReleaseOutcome::kAlreadyGone;
}

void Stop(const std::stop_source& stop, Effects& fx) {
  if (stop.stop_possible()) fx.Add(Effects::By::kGiver, [stop]() mutable { stop.request_stop(); });
}

}  // namespace

Refusal HasEnded() { return {.reason = RefusalReason::kNotHolder, .message = "the lock has ended"}; }

void HeldLeases::Add(const LeasePtr& lease) {
  lease->phase = Lease::Phase::kHeld;
  lease->request = nullptr;
  held_.emplace(lease->id, lease);
  SetDeadline(*lease, lease->deadline_ns);
}

LeasePtr HeldLeases::Find(int64_t id) const {
  const auto found = held_.find(id);
  return found == held_.end() ? nullptr : found->second;
}

bool HeldLeases::Has(const Link& link) const {
  return std::any_of(held_.begin(), held_.end(), [&](const auto& entry) { return entry.second->link == &link; });
}

HeldLeases::Grant HeldLeases::GrantOf(const Lease& lease) {
  const v1::LockSpec& lock = lease.spec->wire;
  if (!lock.reentrant()) return {false, lease.id, "", ""};
  return {true, lease.token, lock.namespace_(), lock.key()};
}

Leases HeldLeases::HoldsOf(const LeasePtr& lease) const {
  if (!lease->spec->wire.reentrant()) return {lease};
  Leases holds;
  for (const auto& [id, other] : held_) {
    if (GrantOf(*other) == GrantOf(*lease)) holds.push_back(other);
  }
  return holds;
}

bool HeldLeases::IsHeldElsewhere(const v1::LockSpec& lock) const {
  if (!moving || !lock.reentrant()) return false;
  return std::any_of(held_.begin(), held_.end(), [&](const auto& entry) {
    const v1::LockSpec& held = entry.second->spec->wire;
    return !sessions_.IsCurrent(entry.second->link) && held.reentrant() && held.key() == lock.key() &&
           held.owner() == lock.owner() && held.namespace_() == lock.namespace_();
  });
}

void HeldLeases::Release(const LeasePtr& lease, ReleaseCallback callback, int64_t now_ns, Effects& fx) {
  if (lease->phase != Lease::Phase::kHeld) {
    // The thread that saw the end may not have stopped the token yet; who released must find it stopped.
    Stop(lease->stop, fx);
    return fx.Answer(std::move(callback), ReleaseOutcome::kAlreadyGone);
  }
  const bool late = now_ns >= lease->deadline_ns;
  End(lease, late ? EndCause::kLapsed : EndCause::kReleased, late ? "released after its deadline" : "",
      /*gone=*/false, fx, std::move(callback));
}

void HeldLeases::End(const LeasePtr& lease, EndCause cause, std::string message, bool gone, Effects& fx,
                     ReleaseCallback callback) {
  held_.erase(lease->id);
  lease->phase = Lease::Phase::kEnded;
  lease->end_message = std::move(message);
  lease->cause.store(cause, std::memory_order_release);
  Stop(lease->stop, fx);
  Stop(lease->any, fx);

  lease->on_released = std::move(callback);
  Link* const to = std::exchange(lease->to, nullptr);
  // The session that adopts its own lease may have another id for it by now.
  if (lease->link != nullptr && !gone) SendRelease(*lease->link, to == lease->link ? 0 : lease->id, lease);
  if (to != nullptr) {
    to->asked.erase(lease->to_id);
    SendRelease(*to, lease->to_id, lease);
  }
  if (lease->releases == 0 && !gone) {
    lease->releases = 1;
    OnReleased(lease, {.broken = true}, fx);
  }

  for (ChangeCallback& waits : std::exchange(lease->downgrades, {})) fx.Answer(std::move(waits), HasEnded());
  TellChange(*lease, HasEnded(), fx);
  // An acquire of the same lock and owner may have waited for its arrival.
  if (moving && lease->spec->wire.reentrant()) MoveAt(0);
}

void HeldLeases::TellChange(Lease& lease, const std::optional<Refusal>& refusal, Effects& fx) {
  const std::unique_ptr<Change> change = std::move(lease.change);
  if (change == nullptr) return;
  for (ChangeCallback& callback : change->callbacks) fx.Answer(std::move(callback), refusal);
}

bool HeldLeases::Notice(const LeasePtr& lease, int64_t now_ns, Effects& fx) {
  if (lease->phase != Lease::Phase::kHeld) return false;
  if (now_ns < lease->deadline_ns) return true;
  const Link& link = lease->link != nullptr ? *lease->link : sessions_.current();
  const bool heard = link.opened && !link.session.Lapsed(now_ns);
  if (heard && lease->at_risk) {
    End(lease, EndCause::kExpired, absl::StrCat("could not be renewed in time: ", lease->risk), false, fx);
  } else if (heard && lease->link != nullptr && lease->spec->wire.has_max_hold()) {
    // While the session is alive and no renewal has failed, only max_hold lets the deadline of a single lease pass.
    End(lease, EndCause::kMaxHold, "held for max_hold", false, fx);
  } else {
    End(lease, EndCause::kLapsed, "the broker was not heard until the deadline", false, fx);
  }
  return false;
}

void HeldLeases::Sweep(int64_t now_ns, Effects& fx) {
  ends_at_ns = kNever;
  bool elsewhere = false;
  ForEach([&](const LeasePtr& lease) {
    if (!Notice(lease, now_ns, fx)) return;
    ends_at_ns = std::min(ends_at_ns, lease->deadline_ns.load());
    elsewhere = elsewhere || lease->link != &sessions_.current();
  });
  moving = moving && elsewhere;
}

void HeldLeases::SetDeadline(Lease& lease, int64_t deadline_ns) {
  lease.deadline_ns.store(deadline_ns, std::memory_order_release);
  ends_at_ns = std::min(ends_at_ns, deadline_ns);
}

void HeldLeases::Rename(const LeasePtr& lease, int64_t id) {
  held_.erase(lease->id);
  lease->id = id;
  held_.emplace(id, lease);
}

void HeldLeases::SendRelease(Link& link, int64_t acquire_id, const LeasePtr& lease) {
  ++lease->releases;
  link.Ask(
      sessions_.TakeIds(),
      [acquire_id, lease](v1::SessionCommand& command) {
        v1::ReleaseLease& release = *command.mutable_release();
        release.set_acquire_id(acquire_id);
        if (acquire_id == 0) release.set_lease_id(lease->names.load()->lease_id);
        const EndCause cause = lease->cause;
        release.set_lapsed(cause != EndCause::kReleased && cause != EndCause::kNotEnded);
      },
      [this, lease](const Answer& answer, int64_t, Effects& fx) { OnReleased(lease, answer, fx); });
}

void HeldLeases::OnReleased(const LeasePtr& lease, const Answer& answer, Effects& fx) {
  const bool gone = answer.refusal && answer.refusal->reason == RefusalReason::kNotHolder;
  lease->outcome = Better(lease->outcome, gone ? ReleaseOutcome::kAlreadyGone : answer.outcome);
  lease->unheard = lease->unheard || answer.broken;
  if (--lease->releases > 0) return;
  const ReleaseOutcome outcome = std::exchange(lease->outcome, ReleaseOutcome::kAlreadyGone);
  fx.Answer(std::exchange(lease->on_released, nullptr), outcome);
  if (std::exchange(lease->unheard, false) && outcome == ReleaseOutcome::kUnknown) LeaveOver(lease, 0);
}

void HeldLeases::LeaveOver(const LeasePtr& lease, int64_t at_ns) {
  if (sessions_.closed) return;
  for (const LeasePtr& hold : HoldsOf(lease)) {
    if (hold != lease) return;  // other holds of a reentrant lease move it, with what is left of it
  }
  if (lease->move_key.empty()) lease->move_key = options_.random_id();
  leftovers.push_back(lease);
  MoveAt(at_ns);
}

}  // namespace distlock::internal
