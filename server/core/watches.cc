// SPDX-License-Identifier: Apache-2.0
#include "core/watches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

bool Same(const HolderView& a, const HolderView& b) {
  return a.owner == b.owner && a.token == b.token && a.since == b.since && a.ttl == b.ttl &&
         a.lock_delay == b.lock_delay && a.min_hold == b.min_hold && a.info == b.info;
}

bool Same(const LockView::WaiterView& a, const LockView::WaiterView& b) {
  return a.owner == b.owner && a.broker_id == b.broker_id && a.ttl == b.ttl && a.since == b.since && a.info == b.info;
}

// Ignores the time that is left to holders, which every renewal changes, and a last token that the store has forgotten.
bool Same(const LockView& a, const LockView& b) {
  const auto same = [](const auto& x, const auto& y) { return Same(x, y); };
  return a.holder_count == b.holder_count && a.queue_length == b.queue_length &&
         (a.last_token == b.last_token || b.last_token == 0) && std::ranges::equal(a.holders, b.holders, same) &&
         std::ranges::equal(a.waiters, b.waiters, same);
}

}  // namespace

void Watches::Handle(const WatchLock& in) {
  if (watching_.contains(in.session)) return;
  if (core_.draining) {
    return core_.Tell({in.session, in.request}, Refused{.reason = RefusalReason::kDraining});
  }
  auto& watch = watches_[in.name];
  if (!watch) {
    watch = std::make_unique<Watch>(*this);
    watch->serial = core_.NextSerial();
    watch->name = in.name;
  }
  watch->listeners.emplace(in.session, Watch::Listening{.request = in.request, .from = core_.NextOp()});
  watching_.emplace(in.session, watch.get());
  // A new watcher is shown the lock as it is now or later.
  Look(*watch);
}

void Watches::Handle(const ChangeNotice& in) {
  if (const auto found = watches_.find(in.name); found != watches_.end()) Look(*found->second);
}

void Watches::LookAtAll() {
  for (auto& [name, watch] : watches_) Look(*watch);
}

void Watches::OnTimer(Watch& watch) {
  watch.op = 0;
  Look(watch);
}

// Looks now, or again when the look under way is answered, or when the pace allows it.
void Watches::Look(Watch& watch) {
  watch.again = watch.op != 0;
  if (watch.again) return;
  if (!core_.store_up) return core_.timers.Cancel(watch);  // StoreUp looks
  if (core_.now < watch.not_before) return core_.Arm(watch, watch.not_before);
  watch.not_before = core_.now + kLookPace;
  watch.op = core_.SendOp({.sender = this, .name = watch.name});
  core_.Command(StoreWatch{watch.op, watch.name});
  core_.Arm(watch, core_.now + kAttemptMax);
}

void Watches::OnReply(const Op& op, OpId id, StoreReply& reply) {
  const auto found = watches_.find(op.name);
  if (found == watches_.end() || found->second->op != id) return;
  Watch& watch = *found->second;
  watch.op = 0;
  auto* done = std::get_if<WatchDone>(&reply.outcome);
  if (done == nullptr) {
    if (IsForeignKey(reply)) return Refuse(watch, *TroubleOf(reply));
    watch.again = false;
    return core_.store_up ? core_.Arm(watch, core_.now + kTendRetry + core_.BackOff(6)) : core_.timers.Cancel(watch);
  }
  done->view.name = watch.name;
  Duration left = Duration::max() / 2;
  for (const HolderView& holder : done->view.holders) {
    left = std::min(left, std::max(holder.time_left, Duration::zero()));
  }
  const Duration next = std::min<Duration>(core_.config.queue_slot / 3, left + kExpirySlack + core_.BackOff(0));
  ShowTo(watch, id, std::move(done->view));
  watch.again ? Look(watch) : core_.Arm(watch, core_.now + next);
}

// Shows the lock to each new watcher if this look was sent after it came, and each change to all others.
void Watches::ShowTo(Watch& watch, OpId look, LockView view) {
  const bool changed = !watch.seen || !Same(*watch.seen, view);
  for (auto& [session, listening] : watch.listeners) {
    const bool first = !listening.told && look >= listening.from;
    if (first || (listening.told && changed)) core_.Tell({session, listening.request}, Changed{view});
    listening.told |= first;
  }
  watch.seen = std::move(view);
}

void Watches::Refuse(Watch& watch, const std::string& cause) {
  const auto listeners = watch.listeners;  // a copy: removing the last one destroys the watch
  for (const auto& [session, listening] : listeners) {
    core_.Tell({session, listening.request}, Refused{.reason = RefusalReason::kForeignKey, .cause = cause});
    StopWatching(session);
  }
}

// The store goes on sending notices to this broker until its slot ends; they are ignored then.
void Watches::StopWatching(SessionId session) {
  const auto found = watching_.find(session);
  if (found == watching_.end()) return;
  Watch& watch = *found->second;
  watching_.erase(found);
  watch.listeners.erase(session);
  if (!watch.listeners.empty()) return;
  core_.timers.Cancel(watch);
  watches_.erase(LockName(watch.name));
}

size_t Watches::Check() const {
  size_t deadlines = 0;
  size_t listeners = 0;
  for (const auto& [name, watch] : watches_) {
    DISTLOCK_CHECK(watch->name == name && !watch->listeners.empty());
    for (const auto& [session, listening] : watch->listeners) DISTLOCK_CHECK(watching_.at(session) == watch.get());
    DISTLOCK_CHECK(watch->op == 0 || core_.IsInFlight(watch->op, this));
    DISTLOCK_CHECK(watch->at != kNever || !core_.store_up);  // it is looked at again
    deadlines += watch->at != kNever;
    listeners += watch->listeners.size();
  }
  DISTLOCK_CHECK(listeners == watching_.size());
  return deadlines;
}

void Watches::EndAll() {
  while (!watching_.empty()) {
    const SessionId session = watching_.begin()->first;
    core_.Tell({session, 0}, EndStream{StreamEnd::kDrained});
    StopWatching(session);
  }
}

}  // namespace distlock::core
