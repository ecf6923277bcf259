// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/watched_locks.h"

#include <algorithm>

namespace distlock::rpc {
namespace {

constexpr core::Duration kShortestPause = std::chrono::seconds(1);
constexpr int kPauseTimes = 19;
// A free lock is watched for so many more rounds.
constexpr uint64_t kFreeRounds = 2;

}  // namespace

core::Duration PauseAfterListing(core::Duration took) { return std::max(kShortestPause, kPauseTimes * took); }

void SubtractAge(core::LockView* view, core::Duration age) {
  for (core::HolderView& holder : view->holders) {
    holder.time_left = std::max(holder.time_left - age, core::Duration::zero());
  }
}

bool WatchedLocks::Add(const core::LockName& name, WatchId watch) {
  if (locks_.size() >= most_ && !DropOneThatIsFree()) return false;
  locks_.emplace(watch, Lock{.name = name, .first = round_ == 0, .waiting = {}, .free_since = {}});
  by_name_.emplace(name, watch);
  if (round_ == 0) ++unseen_;
  return true;
}

void WatchedLocks::Forget(WatchId watch) {
  if (!locks_.contains(watch)) return;
  Drop(watch);
  dropped_.pop_back();
}

void WatchedLocks::EndRound(bool complete) {
  if (!complete) return;
  ++round_;
  std::vector<WatchId> over;
  for (const auto& [since, watch] : free_) {
    if (since + kFreeRounds >= round_) break;
    if (!locks_.at(watch).waiting) over.push_back(watch);
  }
  for (const WatchId watch : over) Drop(watch);
  CheckListed();
}

void WatchedLocks::See(WatchId watch, core::LockView view, core::Instant now) {
  if (const auto found = locks_.find(watch); found != locks_.end()) Show(watch, found->second, std::move(view), now);
}

void WatchedLocks::SeeForeign(WatchId watch, core::Instant now) {
  const auto found = locks_.find(watch);
  if (found == locks_.end()) return;
  Lock& lock = found->second;
  core::LockView nobody;
  nobody.name = lock.name;
  Show(watch, lock, std::move(nobody), now);
  lock.watched = false;
  if (!lock.waiting) Drop(watch);
}

void WatchedLocks::Show(WatchId watch, Lock& lock, core::LockView view, core::Instant now) {
  const bool is_free = view.holders.empty() && view.queue_length == 0;
  if (!lock.seen && lock.first) --unseen_;
  lock.seen = true;
  // A watcher that was never told of the lock need not hear that it is free.
  if (!is_free || lock.told) {
    if (view.holders.size() > kListed + 1) view.holders.resize(kListed + 1);
    if (view.waiters.size() > kListed) view.waiters.resize(kListed);
    if (!lock.waiting) {
      order_.push_back(watch);
      ++put_;
    }
    lock.waiting = Change{std::move(view), now};
    lock.told = true;
  }
  SetFree(watch, lock, is_free);
  CheckListed();
}

void WatchedLocks::SetFree(WatchId watch, Lock& lock, bool is_free) {
  if (is_free == lock.free_since.has_value()) return;
  if (is_free) {
    lock.free_since = round_;
    free_.emplace(round_, watch);
  } else {
    free_.erase({*lock.free_since, watch});
    lock.free_since.reset();
  }
}

std::vector<WatchedLocks::Change> WatchedLocks::TakeChanges(size_t most) {
  std::vector<Change> changes;
  while (!order_.empty() && changes.size() < most) {
    const WatchId watch = order_.front();
    order_.pop_front();
    ++taken_;
    Lock& lock = locks_.at(watch);
    changes.push_back(*std::move(lock.waiting));
    lock.waiting.reset();
    if (!lock.watched) Drop(watch);
  }
  return changes;
}

bool WatchedLocks::TakeListed() {
  if (listed_ || !listed_at_ || taken_ < *listed_at_) return false;
  return listed_ = true;
}

std::vector<WatchedLocks::Dropped> WatchedLocks::All() const {
  std::vector<Dropped> all;
  all.reserve(locks_.size());
  for (const auto& [watch, lock] : locks_) all.push_back({lock.name, watch});
  return all;
}

// The one that has been free for longest, and whose client has been told so.
bool WatchedLocks::DropOneThatIsFree() {
  const auto done = std::ranges::find_if(free_, [this](const auto& one) { return !locks_.at(one.second).waiting; });
  if (done == free_.end()) return false;
  Drop(WatchId(done->second));
  return true;
}

void WatchedLocks::Drop(WatchId watch) {
  const auto found = locks_.find(watch);
  Lock& lock = found->second;
  if (lock.first && !lock.seen) --unseen_;
  if (lock.free_since) free_.erase({*lock.free_since, watch});
  dropped_.push_back({lock.name, watch});
  by_name_.erase(lock.name);
  locks_.erase(found);
  CheckListed();
}

void WatchedLocks::CheckListed() {
  if (round_ > 0 && unseen_ == 0 && !listed_at_) listed_at_ = put_;
}

}  // namespace distlock::rpc
