// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/merge.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/btree_map.h"
#include "store/redlock/ballot/place.h"

namespace distlock::store::ballot {
namespace {

struct Seen {
  core::HolderView view;
  size_t count = 0;
  Place place = kFirstPlace;
  std::vector<Duration> lefts;
  Tokens tokens;
};

// It has the lock for as long as q servers say so.
Duration QuorumLeft(std::vector<Duration> lefts, size_t quorum) {
  std::sort(lefts.begin(), lefts.end(), std::greater<>());
  return lefts[std::min(lefts.size(), quorum) - 1];
}

void AddHolder(core::HolderView&& view, absl::btree_map<OwnerId, Seen>& seen) {
  Seen& one = seen[view.owner];
  one.lefts.push_back(view.time_left);
  const Place place = TakeMark(view.info).place;
  one.tokens.Add(view.token);
  if (one.count++ == 0 || view.token > one.view.token) {
    one.view = std::move(view);
    one.place = place;
  }
}

}  // namespace

void Tokens::Add(uint64_t token) {
  const auto found = std::find_if(counts_.begin(), counts_.end(), [&](const auto& one) { return one.first == token; });
  found == counts_.end() ? void(counts_.emplace_back(token, 1)) : void(++found->second);
}

uint64_t Tokens::OfMost() const {
  return std::max_element(
             counts_.begin(), counts_.end(),
             [](const auto& a, const auto& b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); })
      ->first;
}

core::LockView MergeViews(std::vector<core::LockView> views, size_t nodes) {
  const size_t quorum = nodes / 2 + 1;
  const size_t silent = nodes - views.size();
  core::LockView merged;
  absl::btree_map<OwnerId, Seen> seen;
  struct SeenWaiter {
    core::LockView::WaiterView view;
    Place place = 0;
    size_t count = 0;
  };
  absl::btree_map<OwnerId, SeenWaiter> waiters;
  uint32_t most_holders = 0;
  bool is_cut = false;  // some server has more holders than it showed
  for (core::LockView& view : views) {
    merged.last_token = std::max(merged.last_token, view.last_token);
    merged.queue_length = std::max(merged.queue_length, view.queue_length);
    most_holders = std::max(most_holders, view.holder_count);
    is_cut |= view.holder_count > view.holders.size();
    for (core::HolderView& holder : view.holders) AddHolder(std::move(holder), seen);
    for (auto& waiter : view.waiters) {
      SeenWaiter& one = waiters[waiter.owner];
      ++one.count;
      const Place place = TakeMark(waiter.info).place;
      if (one.count > 1) continue;
      one.place = place;
      one.view = std::move(waiter);
    }
  }
  for (auto& [owner, one] : seen) {
    if (one.count + silent < quorum) continue;
    one.view.token = one.tokens.OfMost();
    one.view.since = SinceOf(one.view.token);
    one.view.time_left = QuorumLeft(std::move(one.lefts), quorum);
    waiters.erase(owner);
    merged.holders.push_back(std::move(one.view));
  }
  std::sort(merged.holders.begin(), merged.holders.end(), [](const core::HolderView& a, const core::HolderView& b) {
    const bool nobody_a = a.owner == OwnerId{}, nobody_b = b.owner == OwnerId{};
    return nobody_a != nobody_b ? nobody_a : std::pair(a.token, a.owner) < std::pair(b.token, b.owner);
  });
  const bool is_blocked = !merged.holders.empty() && merged.holders.front().owner == OwnerId{};
  merged.holder_count = is_cut ? most_holders : merged.holders.size() - is_blocked;
  std::vector<SeenWaiter> line;
  for (auto& [owner, waiter] : waiters) {
    if (waiter.count + silent >= quorum) line.push_back(std::move(waiter));
  }
  std::sort(line.begin(), line.end(), [](const SeenWaiter& a, const SeenWaiter& b) {
    return std::pair(a.place, a.view.owner) < std::pair(b.place, b.view.owner);
  });
  for (SeenWaiter& waiter : line) merged.waiters.push_back(std::move(waiter.view));
  return merged;
}

}  // namespace distlock::store::ballot
