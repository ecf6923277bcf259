// SPDX-License-Identifier: Apache-2.0
#include "core/queues.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

// The waiter's place among this broker's waiters, in the order of the store as far as it can be known here.
uint64_t PlaceOf(const Waiter& waiter) {
  constexpr uint64_t kBehindThePreferred = uint64_t{1} << 63;
  return waiter.serial | (IsPreferred(waiter.spec.want) ? 0 : kBehindThePreferred);
}

// In the order of their places.
void AddWaiters(const LocalQueue& queue, std::vector<Waiter*>& waiters) {
  for (const auto& [place, waiter] : queue.waiters) waiters.push_back(waiter);
}

}  // namespace

void Queues::Join(Waiter& waiter) {
  auto& queue = queues_[waiter.spec.name];
  if (!queue) {
    queue = std::make_unique<LocalQueue>(*this);
    queue->serial = core_.NextSerial();
    queue->name = waiter.spec.name;
    core_.Arm(*queue, core_.now + core_.config.queue_slot / 3);
  }
  queue->waiters.emplace(PlaceOf(waiter), &waiter);
  queue->only_exclusive &= waiter.spec.want.mode == Mode::kExclusive;
}

void Queues::Leave(Waiter& waiter) {
  const auto found = queues_.find(waiter.spec.name);
  if (found == queues_.end()) return;
  found->second->waiters.erase(PlaceOf(waiter));
  if (!found->second->waiters.empty()) return;
  core_.timers.Cancel(*found->second);
  queues_.erase(found);
}

void Queues::Tend(LocalQueue& queue) {
  queue.op = 0;
  if (!core_.store_up) return core_.timers.Cancel(queue);  // StoreUp tends
  queue.op = core_.SendOp({.sender = &answers_to_, .name = queue.name});
  core_.Command(StoreTend{queue.op, queue.name, WhomToAskFor(queue)});
  core_.Arm(queue, core_.now + kAttemptMax);
}

// A tend always reports an EXCLUSIVE holder. SHARED and PERMIT holders are reported only for the owners it asks for:
// the first waiter, who keeps the others waiting, and as many of the others as one call takes, in turn.
std::vector<OwnerId> Queues::WhomToAskFor(LocalQueue& queue) const {
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

std::vector<Waiter*> Queues::OnTended(const Op& op, OpId id, const TendDone* done) {
  std::vector<Waiter*> lost;
  const auto found = queues_.find(op.name);
  if (found == queues_.end() || found->second->op != id) return lost;
  LocalQueue& queue = *found->second;
  queue.op = 0;
  if (done == nullptr) {
    core_.store_up ? core_.Arm(queue, core_.now + kTendRetry + core_.BackOff(6)) : core_.timers.Cancel(queue);
  } else if (done->slot_was_gone) {
    // The store has forgotten our places: it was emptied, or this broker did not tend in time.
    AddWaiters(queue, lost);
  } else {
    OnSeen(queue, op.sent, *done);
  }
  return lost;
}

void Queues::OnSeen(LocalQueue& queue, Instant sent, const TendDone& done) {
  queue.seen_as_of = done.as_of;
  queue.seen_sent = sent;
  queue.held_off_until = core_.now + done.held_off;
  if (done.more) return Tend(queue);
  const bool same =
      done.holders.size() == 1 && queue.holders.size() == 1 && done.holders[0].owner == queue.holders[0].owner;
  if (same) {
    queue.holders[0].time_left = done.holders[0].time_left;
    wants_.OnHolders(queue.name, queue.holders);
  } else {
    queue.holders.clear();  // tend does not bring what the next holder says of itself
  }
  if (!done.left && done.holders.empty()) return core_.Arm(queue, core_.now + kTendRetry);
  const Duration left = std::max(done.left ? *done.left : done.holders[0].time_left, Duration::zero());
  core_.Arm(queue, core_.now + std::min<Duration>(core_.config.queue_slot / 3, left + kExpirySlack + core_.BackOff(0)));
}

std::vector<Waiter*> Queues::Everybody() const {
  std::vector<Waiter*> waiters;
  for (const auto& [name, queue] : queues_) AddWaiters(*queue, waiters);
  return waiters;
}

void Queues::OnBlockNotice(const GrantNotice& in) {
  const auto found = queues_.find(in.name);
  if (found == queues_.end()) return;
  LocalQueue& queue = *found->second;
  // The answer to a tend in flight may show the lock as it was before the block. And a lock that is not blocked any
  // longer (ttl 0) is free by now.
  if (queue.op != 0 || in.ttl == Duration::zero()) return Tend(queue);
  // No notice announces the end of a block.
  core_.Arm(queue, std::min(queue.at, core_.now + in.ttl + kExpirySlack + core_.BackOff(0)));
}

void Queues::LookBy(const LockName& name, Instant at) {
  const auto found = queues_.find(name);
  if (found == queues_.end()) return;
  LocalQueue& queue = *found->second;
  // As with the notice of a block.
  if (queue.op != 0) return Tend(queue);
  core_.Arm(queue, std::min(queue.at, at));
}

void Queues::TendAll() {
  for (auto& [name, queue] : queues_) Tend(*queue);
}

size_t Queues::Check() const {
  size_t deadlines = 0;
  for (const auto& [name, queue] : queues_) {
    DISTLOCK_CHECK(queue->name == name && !queue->waiters.empty());
    for (const auto& [place, waiter] : queue->waiters) {
      DISTLOCK_CHECK(waiter->queued && waiter->spec.name == name && PlaceOf(*waiter) == place);
    }
    DISTLOCK_CHECK(queue->op == 0 || core_.IsInFlight(queue->op, &answers_to_));
    DISTLOCK_CHECK(queue->at != kNever || !core_.store_up);  // a lost notice costs time only
    deadlines += queue->at != kNever;
  }
  return deadlines;
}

LocalQueue* Queues::Find(const LockName& name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : found->second.get();
}

}  // namespace distlock::core
