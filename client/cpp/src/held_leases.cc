// SPDX-License-Identifier: Apache-2.0
#include "held_leases.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distlock::internal {
namespace {

// Of the outcomes in two sessions, of which only one has had the lease.
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
  const LeasePtr kept = lease;  // which may be the one in held_
  held_.erase(kept->id);
  kept->phase = Lease::Phase::kEnded;
  kept->end_message = std::move(message);
  kept->cause.store(cause, std::memory_order_release);
  Stop(kept->stop, fx);
  Stop(kept->any, fx);

  const auto back = std::make_shared<Return>(Return{
      .lease = kept, .key = kept->move_key, .lapsed = cause != EndCause::kReleased, .callback = std::move(callback)});
  Link* const to = std::exchange(kept->to, nullptr);
  // The session that adopts its own lease may have another id for it by now.
  if (kept->link != nullptr && !gone) SendRelease(*kept->link, to == kept->link ? 0 : kept->id, back);
  if (to != nullptr) {
    to->asked.erase(kept->to_id);
    SendRelease(*to, kept->to_id, back);
  }
  if (back->missing == 0 && !gone) {
    back->missing = 1;
    OnReturned(back, {.broken = true}, fx);
  }

  for (ChangeCallback& waits : std::exchange(kept->downgrades, {})) fx.Answer(std::move(waits), HasEnded());
  TellChange(*kept, HasEnded(), fx);
  // An acquire of the same lock and owner may have waited for its arrival.
  if (moving && kept->spec->wire.reentrant()) MoveAt(0);
}

void HeldLeases::TellChange(Lease& lease, const std::optional<Refusal>& refusal, Effects& fx) {
  const std::unique_ptr<Change> change = std::move(lease.change);
  if (change == nullptr) return;
  for (ChangeCallback& callback : change->callbacks) fx.Answer(std::move(callback), refusal);
}

void HeldLeases::GiveBack(Link& link, int64_t id, const LeasePtr& lease) {
  SendRelease(link, id, std::make_shared<Return>(Return{.lease = lease}));
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

void HeldLeases::SendRelease(Link& link, int64_t acquire_id, const ReturnPtr& back) {
  ++back->missing;
  const auto write = [acquire_id, back](v1::SessionCommand& command) {
    v1::ReleaseLease& release = *command.mutable_release();
    release.set_acquire_id(acquire_id);
    if (acquire_id == 0) release.set_lease_id(back->lease->names.load()->lease_id);
    release.set_lapsed(back->lapsed);
  };
  link.Ask(sessions_.TakeIds(), write,
           [this, back](const Answer& answer, int64_t, Effects& fx) { OnReturned(back, answer, fx); });
}

void HeldLeases::OnReturned(const ReturnPtr& back, const Answer& answer, Effects& fx) {
  const bool gone = answer.refusal && answer.refusal->reason == RefusalReason::kNotHolder;
  back->outcome = Better(back->outcome, gone ? ReleaseOutcome::kAlreadyGone : answer.outcome);
  back->broken = back->broken || answer.broken;
  if (--back->missing > 0) return;
  fx.Answer(back->callback, [back] { back->callback(back->outcome); });
  if (back->broken && back->outcome == ReleaseOutcome::kUnknown) LeaveOver(*back, 0);
}

void HeldLeases::LeaveOver(const Return& back, int64_t at_ns) {
  if (sessions_.closed || back.lease == nullptr || back.lease->granted.lease_id.empty()) return;
  for (const LeasePtr& hold : HoldsOf(back.lease)) {
    if (hold != back.lease) return;  // other holds of a reentrant lease move it, with what is left of it
  }
  const std::string key = back.key.empty() ? options_.random_id() : back.key;
  leftovers.push_back(std::make_shared<Return>(Return{.lease = back.lease, .key = key, .lapsed = back.lapsed}));
  MoveAt(at_ns);
}

}  // namespace distlock::internal
