// SPDX-License-Identifier: Apache-2.0
//
// Broker: locks that streams here watch. A notice only says that it is worth looking, and may be lost; a look shows
// the lock and has the store go on telling this broker. So a lock is looked at upon a notice, when a holder may have
// expired, since nobody is told of that, when the store or its channel is back, and before this broker's slot ends.
#include <algorithm>

#include "core/broker.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

bool Same(const HolderView& a, const HolderView& b) {
  return a.owner == b.owner && a.token == b.token && a.since == b.since && a.ttl == b.ttl &&
         a.lock_delay == b.lock_delay && a.info == b.info;
}

bool Same(const LockView::WaiterView& a, const LockView::WaiterView& b) {
  return a.owner == b.owner && a.broker_id == b.broker_id && a.ttl == b.ttl && a.since == b.since && a.info == b.info;
}

// But for the time that is left to its holders, which a renewal changes, and for a last token that was forgotten.
bool Same(const LockView& a, const LockView& b) {
  const auto same = [](const auto& x, const auto& y) { return Same(x, y); };
  return a.holder_count == b.holder_count && a.queue_length == b.queue_length &&
         (a.last_token == b.last_token || b.last_token == 0) && std::ranges::equal(a.holders, b.holders, same) &&
         std::ranges::equal(a.waiters, b.waiters, same);
}

}  // namespace

void Broker::Handle(const WatchLock& in) {
  if (watching_.contains(in.session)) return;
  if (draining_) {
    return Tell({in.session, in.request}, Refused{.reason = RefusalReason::kDraining, .cause = {}, .holders = {}});
  }
  auto& watch = watches_[in.name];
  if (!watch) {
    watch = std::make_unique<Watch>();
    watch->serial = next_serial_++;
    watch->name = in.name;
  }
  watch->listeners.emplace(in.session, Watch::Listening{.request = in.request, .from = next_op_});
  watching_.emplace(in.session, watch.get());
  // Whoever comes is shown the lock as it is no earlier than now.
  Look(*watch);
}

void Broker::Handle(const ChangeNotice& in) {
  if (const auto found = watches_.find(in.name); found != watches_.end()) Look(*found->second);
}

void Broker::LookAtAll() {
  for (auto& [name, watch] : watches_) Look(*watch);
}

void Broker::OnWatchTimer(Watch& watch) {
  if (watch.op != 0) NoteSilence("a look unanswered");
  watch.op = 0;
  Look(watch);
}

// Looks, or sees to it that somebody does once the look under way is over.
void Broker::Look(Watch& watch) {
  watch.again = watch.op != 0;
  if (watch.again) return;
  if (!store_up_) return timers_.Cancel(watch);  // StoreUp looks
  if (now_ < watch.not_before) return Arm(watch, watch.not_before);
  watch.not_before = now_ + kLookPace;
  Op op;
  op.verb = Op::Verb::kWatch;
  op.name = watch.name;
  watch.op = SendOp(std::move(op));
  Command(StoreWatch{watch.op, watch.name});
  Arm(watch, now_ + kAttemptMax);
}

void Broker::OnWatchReply(const Op& op, OpId id, StoreReply& reply) {
  const auto found = watches_.find(op.name);
  if (found == watches_.end() || found->second->op != id) return;
  Watch& watch = *found->second;
  watch.op = 0;
  auto* done = std::get_if<WatchDone>(&reply.outcome);
  if (done == nullptr) {
    const auto* failed = std::get_if<StoreFailed>(&reply.outcome);
    if (failed != nullptr && failed->kind == FailureKind::kForeignKey) return RefuseWatch(watch, failed->cause);
    watch.again = false;
    return store_up_ ? Arm(watch, now_ + kTendRetry + BackOff(6)) : timers_.Cancel(watch);
  }
  done->view.name = watch.name;
  Duration left = Duration::max() / 2;
  for (const HolderView& holder : done->view.holders) {
    left = std::min(left, std::max(holder.time_left, Duration::zero()));
  }
  const Duration next = std::min<Duration>(config_.queue_slot / 3, left + kExpirySlack + BackOff(0));
  ShowTo(watch, id, std::move(done->view));
  watch.again ? Look(watch) : Arm(watch, now_ + next);
}

// Tells those who have not seen the lock yet, if this look is new enough for them, and of a change all others.
void Broker::ShowTo(Watch& watch, OpId look, LockView view) {
  const bool changed = !watch.seen || !Same(*watch.seen, view);
  for (auto& [session, listening] : watch.listeners) {
    const bool first = !listening.told && look >= listening.from;
    if (first || (listening.told && changed)) Tell({session, listening.request}, Changed{view});
    listening.told |= first;
  }
  watch.seen = std::move(view);
}

void Broker::RefuseWatch(Watch& watch, const std::string& cause) {
  const auto listeners = watch.listeners;  // with the last of them the watch is gone
  for (const auto& [session, listening] : listeners) {
    Tell({session, listening.request}, Refused{.reason = RefusalReason::kForeignKey, .cause = cause, .holders = {}});
    StopWatching(session);
  }
}

// The store goes on telling this broker until its slot ends.
void Broker::StopWatching(SessionId session) {
  const auto found = watching_.find(session);
  if (found == watching_.end()) return;
  Watch& watch = *found->second;
  watching_.erase(found);
  watch.listeners.erase(session);
  if (!watch.listeners.empty()) return;
  timers_.Cancel(watch);
  watches_.erase(LockName(watch.name));
}

// They hold nothing: another broker shows them the lock as well.
void Broker::EndWatches() {
  while (!watching_.empty()) {
    const SessionId session = watching_.begin()->first;
    Tell({session, 0}, EndStream{StreamEnd::kDrained});
    StopWatching(session);
  }
}

}  // namespace distlock::core
