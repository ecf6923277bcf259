// SPDX-License-Identifier: Apache-2.0
//
// Broker: its waiters in the store's queues. Pub/sub is only a hint: each queue is tended before this broker's slot in it
// ends and when the holder's ttl does, so a lost notice costs time, never a hang.
#include <algorithm>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

namespace {

// Where it stands among our own: as the store orders them, as far as that can be known here.
uint64_t PlaceOf(const Waiter& waiter) {
  constexpr uint64_t kBehindThePreferred = uint64_t{1} << 63;
  return waiter.serial | (IsPreferred(waiter.spec.want) ? 0 : kBehindThePreferred);
}

}  // namespace

void Broker::JoinQueue(Waiter& waiter) {
  auto& queue = queues_[waiter.spec.name];
  if (!queue) {
    queue = std::make_unique<LocalQueue>();
    queue->serial = core_.NextSerial();
    queue->name = waiter.spec.name;
    Arm(*queue, now_ + config_.queue_slot / 3);
  }
  queue->waiters.emplace(PlaceOf(waiter), &waiter);
  queue->only_exclusive &= waiter.spec.want.mode == Mode::kExclusive;
}

void Broker::LeaveQueue(Waiter& waiter) {
  const auto found = queues_.find(waiter.spec.name);
  if (found == queues_.end()) return;
  found->second->waiters.erase(PlaceOf(waiter));
  if (!found->second->waiters.empty()) return;
  timers_.Cancel(*found->second);
  queues_.erase(found);
}

void Broker::OnQueueTimer(LocalQueue& queue) {
  if (queue.op != 0) NoteSilence("queue unanswered");
  Tend(queue);
}

void Broker::Tend(LocalQueue& queue) {
  queue.op = 0;
  if (!store_up_) return timers_.Cancel(queue);  // StoreUp tends
  Op op;
  op.verb = Op::Verb::kTend;
  op.name = queue.name;
  queue.op = SendOp(std::move(op));
  Command(StoreTend{queue.op, queue.name, WhomToAskFor(queue)});
  Arm(queue, now_ + kAttemptMax);
}

// One EXCLUSIVE holder is told of whoever it is. Of many, only those are told of who are asked for: the first, who keeps the
// others waiting, and as many of them as one call takes, in turn.
std::vector<OwnerId> Broker::WhomToAskFor(LocalQueue& queue) const {
  auto next = queue.waiters.begin();
  std::vector<OwnerId> asked{next->second->spec.owner};
  if (queue.only_exclusive) return asked;
  const size_t count = std::min(queue.waiters.size(), kMaxAsked);
  next = queue.waiters.lower_bound(std::max(queue.asked_from, next->first + 1));
  while (asked.size() < count) {
    if (next == queue.waiters.end()) next = std::next(queue.waiters.begin());
    asked.push_back(next->second->spec.owner);
    ++next;
  }
  queue.asked_from = next == queue.waiters.end() ? 0 : next->first;
  return asked;
}

void Broker::OnTendReply(const Op& op, OpId id, StoreReply& reply) {
  auto found = queues_.find(op.name);
  const auto* done = std::get_if<TendDone>(&reply.outcome);
  if (done != nullptr && !done->slot_was_gone) {
    // Our waiters may hold it already: the notice was lost, or is still on its way.
    for (const HolderView& holder : done->holders) {
      const auto waiter = waiters_.find(holder.owner);
      if (waiter == waiters_.end() || !waiter->second->queued) continue;
      HandOff(op.name, holder.owner, holder.token, holder.since, holder.ttl, TendDeadline(op.sent, reply.time, holder),
              Arrival::kTend);
    }
    found = queues_.find(op.name);
  }
  if (found == queues_.end() || found->second->op != id) return;
  LocalQueue& queue = *found->second;
  queue.op = 0;
  if (done == nullptr) {
    return store_up_ ? Arm(queue, now_ + kTendRetry + BackOff(6)) : timers_.Cancel(queue);
  }
  if (done->slot_was_gone) return RejoinAll(queue);
  queue.seen = reply.time;
  queue.seen_sent = op.sent;
  if (done->more) return Tend(queue);
  const bool same =
      done->holders.size() == 1 && queue.holders.size() == 1 && done->holders[0].owner == queue.holders[0].owner;
  if (same) {
    queue.holders[0].time_left = done->holders[0].time_left;
  } else {
    queue.holders.clear();  // tend does not bring what the next holder says of itself
  }
  if (!done->left && done->holders.empty()) return Arm(queue, now_ + kTendRetry);
  const Duration left = std::max(done->left ? *done->left : done->holders[0].time_left, Duration::zero());
  Arm(queue, now_ + std::min<Duration>(config_.queue_slot / 3, left + kExpirySlack + BackOff(0)));
}

// Whether it still has a place there is for the next Ask to find out.
void Broker::LosePlace(Waiter& waiter) {
  waiter.queued = false;
  unplaced_.emplace(waiter.serial, &waiter);
  LeaveQueue(waiter);
}

// The store has forgotten our places (it was emptied, or we were silent too long): take new ones in the old order.
void Broker::RejoinAll(LocalQueue& queue) {
  std::vector<Waiter*> waiters;
  for (auto& [serial, waiter] : queue.waiters) waiters.push_back(waiter);
  for (Waiter* waiter : waiters) LosePlace(*waiter);
  for (Waiter* waiter : waiters) Ask(*waiter);
}

// Nobody is told when a block ends: look then.
void Broker::OnBlockNotice(const GrantNotice& in) {
  // One whose place is not known yet may be answered with what was before the block.
  for (auto& [serial, waiter] : unplaced_) {
    if (waiter->spec.name == in.name) waiter->hint = std::max(waiter->hint, in.since);
  }
  const auto found = queues_.find(in.name);
  if (found == queues_.end()) return;
  LocalQueue& queue = *found->second;
  // So may be a look that is under way. And what is called up is free by now.
  if (queue.op != 0 || in.ttl == Duration::zero()) return Tend(queue);
  Arm(queue, std::min(queue.at, now_ + in.ttl + kExpirySlack + BackOff(0)));
}

void Broker::Handle(const GrantNotice& in) {
  if (in.owner == OwnerId{}) return OnBlockNotice(in);
  const auto found = waiters_.find(in.owner);
  Instant deadline = clock_.known() ? clock_.Earliest(in.since, now_) + in.ttl : now_;
  // Notices keep no order with replies: this one may tell of a grant that has been given back or lost since.
  if (found != waiters_.end()) {
    Waiter& waiter = *found->second;
    if (!waiter.queued && (waiter.exists || waiter.spec.detached)) {
      waiter.hint = std::max(waiter.hint, in.since);
      return;
    }
    if (in.since < waiter.placed) return;
    deadline = NoticeDeadline(waiter, in.since, in.ttl);
  }
  HandOff(in.name, in.owner, in.token, in.since, in.ttl, deadline, Arrival::kNotice);
}

// A notice does not say when by our clock the ttl began, and the store's clock may have jumped since we last heard from it:
// only what we sent while the store still said "waits" is surely older than the grant.
Instant Broker::NoticeDeadline(const Waiter& waiter, StoreTime since, Duration ttl) const {
  Instant older = waiter.placed_sent;
  const auto queue = queues_.find(waiter.spec.name);
  if (queue != queues_.end() && since >= queue->second->seen) older = std::max(older, queue->second->seen_sent);
  return older + ttl - Margin(ttl);
}

// The script that ran at `time`, after we sent it, says since when it is held: both by one clock.
Instant Broker::TendDeadline(Instant sent, StoreTime time, const HolderView& holder) const {
  const Duration held = std::chrono::microseconds(time.us - holder.since.us);
  return held < Duration::zero() ? sent : sent - held + holder.ttl - Margin(holder.ttl);
}

void Broker::HandOff(const LockName& name, const OwnerId& owner, uint64_t token, StoreTime since, Duration ttl,
                     Instant deadline, Arrival arrival) {
  const auto waiter = waiters_.find(owner);
  if (PendingRelease* const release = releases_.Find(owner); release != nullptr) {
    // A late release of an earlier grant leaves this one alone; any other undoes it, and its end asks again.
    const bool spared =
        waiter != waiters_.end() && !release->waiting && release->only_token != 0 && release->only_token != token;
    if (!spared) {
      if (IsRepeatable(owner)) return;
      release->waiting = true;
      return PursueGiveBack(*release);
    }
  }
  if (waiter != waiters_.end()) return Grant(*waiter->second, token, since, ttl, deadline, arrival);
  if (leases_.contains(owner) || GrantedRecently(owner)) return;  // told twice
  if (IsRepeatable(owner)) return;  // a repeat may hold it through another broker; only the ttl ends it
  if (now_ >= deadline) return;     // ended by itself, unless its owner has renewed it elsewhere
  PursueGiveBack(StartGiveBack(name, owner, /*waiting=*/true, Duration::zero(), ttl));
}

void Broker::LookBy(const LockName& name, Instant at) {
  const auto queue = queues_.find(name);
  if (queue != queues_.end()) Arm(*queue->second, std::min(queue->second->at, at));
}

}  // namespace distlock::core
