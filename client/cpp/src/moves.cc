// SPDX-License-Identifier: Apache-2.0
#include "moves.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

namespace distlock::internal {
namespace {

constexpr int64_t kRetryPause = 100'000'000;
constexpr int64_t kLongestRetryPause = 500'000'000;

// Whether an adoption that was refused so may succeed later, and after which pause.
bool MayPass(RefusalReason reason) { return !IsPermanent(reason) && reason != RefusalReason::kNotHolder; }
int64_t PauseOf(const Refusal& refusal) {
  return std::clamp(refusal.retry_after.value_or(Duration::zero()).count(), kRetryPause, kLongestRetryPause);
}

// Whether the broker of this link has another store, where nobody has heard of the lease.
bool IsElsewhere(const Lease& lease, const Link& link) {
  return !lease.store.empty() && !link.store.empty() && lease.store != link.store;
}

void SendAdoption(Link& link, int64_t id, const Lease& lease, const std::string& key, size_t holds) {
  v1::AdoptLease adopt;
  adopt.set_lease_id(lease.names.load()->lease_id);
  *adopt.mutable_lock() = (lease.change ? lease.change->spec : lease.shown ? lease.shown : lease.spec)->wire;
  if (lease.downgraded) adopt.mutable_lock()->set_mode(v1::LOCK_MODE_SHARED);
  adopt.set_request_id(key);
  if (holds > 1) adopt.set_hold_count(static_cast<int32_t>(holds));
  const size_t bytes = adopt.ByteSizeLong() + kCommandBytes;
  link.Add(id, [adopt = std::move(adopt)](v1::SessionCommand& command) { *command.mutable_adopt() = adopt; }, bytes);
}

}  // namespace

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

void Moves::Downgrade(const LeasePtr& lease, ChangeCallback callback, Effects& fx) {
  if (!MayChange(*lease, nullptr, callback, fx)) return;
  lease->downgrades.push_back(std::move(callback));
  SendDowngrades(lease);
}

void Moves::Proclaim(const LeasePtr& lease, SpecPtr spec, ChangeCallback callback, int64_t now_ns, Effects& fx) {
  const bool too_old = lease->stays || (lease->link != nullptr && !lease->link->adopts);
  const char* const unable = spec->wire.reentrant() ? "the lock is reentrant: what is shown of its holds cannot change"
                             : too_old              ? "the broker is too old to change what is shown of a lock"
                                                    : nullptr;
  if (!spec->problem && !MayChange(*lease, unable, callback, fx)) return;
  if (spec->problem) return fx.Answer(std::move(callback), spec->problem);
  if (lease->change == nullptr) lease->change = std::make_unique<Change>();
  lease->change->spec = std::move(spec);
  lease->change->callbacks.push_back(std::move(callback));
  held_.MoveAt(now_ns);
}

bool Moves::MayChange(const Lease& lease, const char* unable, ChangeCallback& callback, Effects& fx) {
  if (lease.phase != Lease::Phase::kHeld || (lease.link != nullptr && lease.link->leaving)) {
    fx.Answer(std::move(callback), HasEnded());
    return false;
  }
  if (unable == nullptr) return true;
  fx.Answer(std::move(callback), Refusal{.reason = RefusalReason::kNotSupported, .message = unable});
  return false;
}

void Moves::OnDraining(Link& link, Duration time_left, int64_t now_ns, Effects& fx) {
  link.drained_at_ns = AddNs(now_ns, time_left.count());
  if (options_.brokers == 1 || !link.adopts) TellDraining(time_left, fx);
  OnDrains(link, now_ns);
}

void Moves::TellDraining(Duration time_left, Effects& fx) const {
  if (!options_.on_draining) return;
  fx.Add(Effects::By::kExecutor, [tell = options_.on_draining, time_left] { tell(time_left); });
}

void Moves::OnDrains(Link& link, int64_t now_ns) {
  link.draining = true;
  MoveOn(now_ns);
}

void Moves::MoveOn(int64_t now_ns) {
  Link& from = sessions_.current();
  if (options_.brokers == 1 || sessions_.closed || !from.streaming || !from.draining) return;
  if (sessions_.other().streaming) return;
  sessions_.present = 1 - sessions_.present;
  held_.moving = true;
  if (!options_.reissue_waits) return;
  for (const RequestPtr& request : requests_.All()) {
    if (request->link() != &from) continue;
    if (request->one_try) {
      requests_.Withdraw(*request);
    } else {
      // The next broker takes over its place in the queue. What was granted meanwhile is given back when that broker
      // has the request, or with the goodbye: then it comes to the place that it has there.
      for (const LeasePtr& lease : request->leases) {
        lease->former = &from;
        lease->crossed = lease->phase == Lease::Phase::kGranted;
      }
    }
    requests_.Strand(*request, now_ns);
  }
}

void Moves::Send(int64_t now_ns, Effects& fx) {
  held_.moves_at_ns = kNever;
  held_.moving = false;
  Link& link = sessions_.current();
  const bool ready = link.opened && !link.leaving && !link.draining;
  std::map<HeldLeases::Grant, Leases> groups;
  held_.ForEach([&](const LeasePtr& lease) {
    const bool here = lease->link == &link;
    if (here && lease->change == nullptr) return;
    held_.moving = held_.moving || !here;
    const bool may_leave = lease->link == nullptr || (lease->link->adopts && !lease->link->leaving);
    if (!ready || lease->stays || lease->to != nullptr || !may_leave) return;
    if (IsElsewhere(*lease, link)) {
      TellOfDrain(*lease, now_ns, fx);
    } else if (link.adopts) {
      groups[HeldLeases::GrantOf(*lease)].push_back(lease);
    } else {
      Stay(lease, now_ns, fx);
    }
  });
  for (const auto& [grant, holds] : groups) Adopt(link, holds);
  if (ready) FreeLeftovers(link);
  requests_.SendUnsent(now_ns, fx);
}

// All holds of one reentrant lease, or another lease.
void Moves::Adopt(Link& link, const Leases& holds) {
  std::string key;
  for (const LeasePtr& hold : holds) {
    if (hold->downgrading > 0) return;  // the adoption must name the mode, which is known with the answer
    if (key.empty()) key = hold->move_key;
  }
  if (key.empty()) key = options_.random_id();
  int64_t id = sessions_.TakeIds(holds.size());
  SendAdoption(link, id, *holds.front(), key, holds.size());
  for (const LeasePtr& hold : holds) {
    hold->to = &link;
    hold->to_id = id++;
    hold->move_key = key;
    if (hold->change != nullptr) hold->change->sent = hold->change->spec;
    link.asked.emplace(hold->to_id, [this, &link, hold](const Answer& answer, int64_t now_ns, Effects& fx) {
      if (answer.refusal) {
        OnNotAdopted(link, hold, *answer.refusal, now_ns, fx);
      } else if (answer.grant != nullptr && held_.Notice(hold, now_ns, fx)) {
        // Else too late: that has lost the lease, and released it here as well.
        OnAdopted(link, hold, *answer.grant, now_ns, fx);
      }
    });
  }
}

// An adoption that was under way may have changed their lease_ids: they are adopted again, and released then. Nobody
// believes in them, so an adoption that is refused matters only when it may succeed later.
void Moves::FreeLeftovers(Link& link) {
  for (const LeasePtr& lease : std::exchange(held_.leftovers, {})) {
    if (IsElsewhere(*lease, link)) continue;  // its ttl ends it
    int64_t id = 0;
    if (link.adopts) {
      id = sessions_.TakeIds();
      SendAdoption(link, id, *lease, lease->move_key, 1);
      link.asked.emplace(id, [this, lease](const Answer& answer, int64_t now_ns, Effects&) {
        if (!answer.refusal || answer.broken || !MayPass(answer.refusal->reason)) return;
        held_.LeaveOver(lease, AddNs(now_ns, PauseOf(*answer.refusal)));
      });
    }
    held_.SendRelease(link, id, lease);
  }
}

// From now on only this session's promises count, also when they are shorter.
void Moves::OnAdopted(Link& link, const LeasePtr& lease, const v1::Grant& grant, int64_t now_ns, Effects& fx) {
  held_.Rename(lease, lease->to_id);
  lease->to = nullptr;
  lease->link = &link;
  if (!link.store.empty()) lease->store = link.store;
  lease->move_key.clear();
  lease->at_risk.store(false, std::memory_order_relaxed);
  lease->moved.push_front({grant.lease_id(), grant.holder_id()});
  lease->names.store(&lease->moved.front(), std::memory_order_release);
  if (grant.fencing_token() != lease->token) {
    return held_.End(lease, EndCause::kTaken, "it was adopted under another fencing token", /*gone=*/false, fx);
  }
  const int64_t deadline_ns = link.session.DeadlineOf(grant.echo_seq(), ToNs(grant.valid_for()));
  held_.SetDeadline(*lease, deadline_ns);
  OnShown(*lease, now_ns, fx);
  if (!held_.Notice(lease, now_ns, fx)) return;
  link.BeatForGrant(deadline_ns, now_ns);
  SendDowngrades(lease);
  // An acquire may have waited for its arrival, or that broker drains already.
  if (lease->spec->wire.reentrant() || !sessions_.IsCurrent(&link)) held_.MoveAt(now_ns);
}

void Moves::OnShown(Lease& lease, int64_t now_ns, Effects& fx) {
  if (lease.change == nullptr || lease.change->sent == nullptr) return;
  lease.shown = lease.change->sent;
  if (lease.change->sent == lease.change->spec) {
    HeldLeases::TellChange(lease, std::nullopt, fx);
  } else {  // it was asked for after that adoption
    held_.MoveAt(now_ns);
  }
}

void Moves::OnNotAdopted(Link& link, const LeasePtr& lease, const Refusal& refusal, int64_t now_ns, Effects& fx) {
  for (const LeasePtr& hold : held_.HoldsOf(lease)) {  // the refusal is that of all holds
    if (hold->move_key != lease->move_key || std::exchange(hold->to, nullptr) == nullptr) continue;
    link.asked.erase(hold->to_id);
    if (refusal.reason == RefusalReason::kNotHolder) {
      held_.End(hold, EndCause::kTaken, absl::StrCat("it could not be taken over: ", refusal.message), true, fx);
    } else if (MayPass(refusal.reason)) {
      held_.MoveAt(AddNs(now_ns, PauseOf(refusal)));
    } else if (refusal.reason == RefusalReason::kNotSupported && hold->mode_unsure) {
      hold->mode_unsure = false;
      hold->downgraded = !hold->downgraded;
      held_.MoveAt(now_ns);
    } else if (hold->change != nullptr) {
      hold->move_key.clear();
      HeldLeases::TellChange(*hold, refusal, fx);
      held_.MoveAt(now_ns);  // without the change it may do
    } else {
      Stay(hold, now_ns, fx);
    }
  }
  if (refusal.reason == RefusalReason::kDraining) OnDrains(link, now_ns);
}

// No broker can adopt it: it stays where it is, and is lost when that broker goes.
void Moves::Stay(const LeasePtr& lease, int64_t now_ns, Effects& fx) {
  lease->stays = true;
  lease->move_key.clear();
  SendDowngrades(lease);
  TellOfDrain(*lease, now_ns, fx);
}

void Moves::TellOfDrain(const Lease& lease, int64_t now_ns, Effects& fx) {
  if (lease.link == nullptr || lease.link->drained_at_ns == kNever) return;
  TellDraining(Duration(std::max<int64_t>(std::exchange(lease.link->drained_at_ns, kNever) - now_ns, 0)), fx);
}

bool Moves::Survives(const Lease& lease, int64_t now_ns) const {
  if (sessions_.closed || lease.stays || lease.link == nullptr || !lease.link->adopts) return false;
  if (now_ns >= lease.deadline_ns || lease.spec->wire.on_disconnect() == v1::ON_DISCONNECT_RELEASE) return false;
  return lease.spec->wire.resume() || !lease.move_key.empty() || !sessions_.IsCurrent(lease.link);
}

void Moves::Orphan(Lease& lease, const std::string& why) {
  lease.link = nullptr;
  lease.risk = why;
  lease.at_risk.store(true, std::memory_order_relaxed);
  held_.moving = true;
  held_.MoveAt(0);
}

// Sends what waited for the lease's arrival.
void Moves::SendDowngrades(const LeasePtr& lease) {
  if (lease->link == nullptr || (!lease->move_key.empty() && !lease->stays)) return;
  for (ChangeCallback& callback : std::exchange(lease->downgrades, {})) {
    const Leases holds = held_.HoldsOf(lease);
    for (const LeasePtr& hold : holds) ++hold->downgrading;
    const auto write = [id = lease->id](v1::SessionCommand& command) {
      command.mutable_downgrade()->set_acquire_id(id);
    };
    lease->link->Ask(
        sessions_.TakeIds(), write,
        [this, holds, tell = std::move(callback)](const Answer& answer, int64_t now_ns, Effects& fx) mutable {
          fx.Answer(std::move(tell), answer.refusal);
          OnDowngraded(holds, answer.refusal, now_ns, fx);
        });
  }
}

void Moves::OnDowngraded(const Leases& holds, const std::optional<Refusal>& refusal, int64_t now_ns, Effects& fx) {
  for (const LeasePtr& hold : holds) --hold->downgrading;
  for (const LeasePtr& hold : held_.HoldsOf(holds.front())) {
    hold->downgraded = hold->downgraded || !refusal;
    hold->mode_unsure = hold->mode_unsure || refusal;
  }
  if (held_.moving) Send(now_ns, fx);
}

void Moves::LeaveWhenEmpty(Link& link) {
  if (sessions_.IsCurrent(&link) || !link.usable() || !link.asked.empty() || held_.Has(link)) return;
  for (const RequestPtr& request : requests_.All()) {
    for (const LeasePtr& lease : request->leases) {
      if (lease->link == &link || lease->former == &link) return;
    }
  }
  requests_.Leave(link);
}

}  // namespace distlock::internal
