// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/lock_lanes.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace distlock::store {

bool LockLanes::AnyOut(const Lane& lane) {
  return std::ranges::any_of(lane.items, [](const Item& item) { return item.state == Item::State::kOut; });
}

bool LockLanes::Enter(const core::LockName& lock, CommandId id, NodeNumber node) {
  Lane& lane = lanes_[lock];
  const bool all_out =
      std::ranges::all_of(lane.items, [](const Item& item) { return item.state == Item::State::kOut; });
  const bool now = lane.items.empty() || (all_out && !lane.alone && lane.node == node);
  if (now) lane.node = node;
  lane.items.push_back({.id = id, .state = now ? Item::State::kOut : Item::State::kWaits});
  return now;
}

void LockLanes::Answered(const core::LockName& lock, CommandId id, NodeNumber node, Steps& steps) {
  const auto found = lanes_.find(lock);
  DISTLOCK_CHECK(found != lanes_.end());
  auto& items = found->second.items;
  if (items.size() == 1) {
    DISTLOCK_CHECK(items.front().id == id);
    lanes_.erase(found);
    return;
  }
  DISTLOCK_CHECK(std::ranges::find(items, id, &Item::id) != items.end());
  // An earlier item that has not run must not run after this one.
  bool before = true;
  const auto ends = [&](const Item& item) {
    if (item.id == id) return !(before = false);
    const bool overtaken = before && item.state == Item::State::kRedirected;
    if (overtaken) steps.push_back({Step::What::kFail, item.id});
    return overtaken;
  };
  items.erase(std::remove_if(items.begin(), items.end(), ends), items.end());
  if (!AnyOut(found->second)) GoOn(lock, node, steps);
}

void LockLanes::Redirected(const core::LockName& lock, CommandId id, std::optional<NodeNumber> ask_at, NodeNumber node,
                           Steps& steps) {
  const auto found = lanes_.find(lock);
  DISTLOCK_CHECK(found != lanes_.end());
  auto& items = found->second.items;
  const auto own = std::ranges::find(items, id, &Item::id);
  DISTLOCK_CHECK(own != items.end() && own->state == Item::State::kOut);
  if (++own->redirects > kMaxRedirects) {
    steps.push_back({Step::What::kFail, id});
    items.erase(own);
  } else {
    own->state = Item::State::kRedirected;
    own->ask_at = ask_at;
  }
  if (!AnyOut(found->second)) GoOn(lock, node, steps);
}

void LockLanes::GoOn(const core::LockName& lock, NodeNumber node, Steps& steps) {
  const auto found = lanes_.find(lock);
  Lane& lane = found->second;
  lane.alone = false;
  if (lane.items.empty()) {
    lanes_.erase(found);
    return;
  }
  if (Item& first = lane.items.front(); first.ask_at) {
    lane.node = *first.ask_at;
    lane.alone = true;
    first.ask_at.reset();
    first.state = Item::State::kOut;
    steps.push_back({Step::What::kSendAsking, first.id, lane.node});
    return;
  }
  lane.node = node;
  for (Item& item : lane.items) {
    if (item.ask_at) break;
    item.state = Item::State::kOut;
    steps.push_back({Step::What::kSend, item.id, node});
  }
}

}  // namespace distlock::store
