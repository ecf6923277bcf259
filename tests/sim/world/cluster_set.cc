// SPDX-License-Identifier: Apache-2.0
#include "world/cluster_set.h"

#include <algorithm>
#include <utility>

#include "world/store_observer.h"

namespace distlock::sim {
namespace {

constexpr Duration kLongestNews = seconds(2);  // until every node knows of a move
constexpr Duration kAftermath = seconds(6);    // until brokers have looked for what they may have missed

}  // namespace

ClusterSet::ClusterSet(Env& env, Directory& directory, std::function<void()> moved)
    : env_(env), moved_(std::move(moved)) {
  for (int i = 0; i < kNodes; ++i) {
    nodes_.push_back(std::make_unique<ClusterNode>(env, i));
    directory.Lead(ClusterNode::HostOf(i), *nodes_.back());
  }
  for (size_t slot = 0; slot < store::kSlots; ++slot) {
    owner_[slot] = static_cast<int8_t>(slot * kNodes / store::kSlots);
    for (const auto& node : nodes_) node->Believe(static_cast<Slot>(slot), owner_[slot]);
  }
  // Clocks of machines that nobody keeps together; only where each holder's end is kept as a time to live.
  if (!env.temper.skewed_nodes) return;
  for (const auto& node : nodes_) node->StepClock(env.dice.Between(milliseconds(-200), milliseconds(200)));
}

std::vector<store::ServerAddress> ClusterSet::Seeds() const {
  std::vector<store::ServerAddress> seeds;
  for (int i = 0; i < kNodes; ++i) seeds.push_back({.host = ClusterNode::HostOf(i), .port = ClusterNode::kPort});
  return seeds;
}

ClusterNode* ClusterSet::NodeOf(const std::string& lock) {
  const Slot slot = store::SlotOf(StoreObserver::KeyOf(lock, "h"));
  if (!moving_.contains(slot)) return &Owner(slot);
  std::vector<ClusterNode*> with_keys;
  for (const auto& node : nodes_) {
    const auto has = [&](const char* part) {
      return node->model().Type(StoreObserver::KeyOf(lock, part)) != KeyType::kNone;
    };
    if (has("h") || has("t") || has("q") || has("w")) with_keys.push_back(node.get());
  }
  return with_keys.empty() ? &Owner(slot) : with_keys.size() == 1 ? with_keys.front() : nullptr;
}

Slot ClusterSet::AnySlot() { return store::SlotOf(StoreObserver::KeyOf(env_.dice.Pick(env_.history.locks), "h")); }

ClusterNode& ClusterSet::Another(const ClusterNode& than) {
  return *nodes_[static_cast<size_t>((than.number() + 1 + env_.dice.Roll(kNodes - 1)) % kNodes)];
}

// Brokers may miss notices meanwhile, and commands are refused.
void ClusterSet::Note(const ClusterNode& node, Duration lasts) {
  env_.NoteFault(FaultKind::kStoreRefuses, node.actor(), lasts + kLongestNews + kAftermath);
  env_.NoteFault(FaultKind::kChannelLost, node.actor(), lasts + kLongestNews + kAftermath);
}

void ClusterSet::Reshard() {
  const Slot slot = AnySlot();
  if (healed_ || !moving_.insert(slot).second) return;
  ClusterNode& from = Owner(slot);
  ClusterNode& to = Another(from);
  env_.Log([&] { return "slot " + std::to_string(slot) + " moves from " + from.name() + " to " + to.name(); });
  Note(from, seconds(3));
  to.Import(slot, from.number());
  from.Migrate(slot, to.number());
  env_.time.After(env_.dice.Between(Duration(0), milliseconds(100)),
                  [this, slot, &from, &to] { Step(slot, from, to); });
}

void ClusterSet::Step(Slot slot, ClusterNode& from, ClusterNode& to) {
  std::vector<std::string> keys = from.KeysOf(slot);
  // A node that stands still, is down or is full takes part later.
  const bool both = from.CanMoveTo(to);
  if (both && keys.empty()) return Hand(slot, from, to);
  if (both) {
    from.MoveKey(env_.dice.Pick(keys), to);
    moved_();
  }
  env_.time.After(env_.dice.Between(Duration(0), milliseconds(200)),
                  [this, slot, &from, &to] { Step(slot, from, to); });
}

void ClusterSet::Hand(Slot slot, ClusterNode& from, ClusterNode& to) {
  to.Import(slot, std::nullopt);
  Tell(slot, from, to);
  env_.time.After(env_.dice.Between(Duration(0), milliseconds(50)), [this, slot, &from, &to] {
    from.Migrate(slot, std::nullopt);
    from.Believe(slot, to.number());
    moving_.erase(slot);
    moved_();
  });
}

void ClusterSet::Tell(Slot slot, ClusterNode& from, ClusterNode& to) {
  owner_[slot] = static_cast<int8_t>(to.number());
  to.Believe(slot, to.number());
  for (const auto& node : nodes_) {
    if (node.get() == &from || node.get() == &to) continue;
    env_.time.After(env_.dice.Between(Duration(0), kLongestNews), [this, slot, node = node.get()] {
      if (owner_[slot] != node->number()) node->Believe(slot, owner_[slot]);
    });
  }
}

void ClusterSet::MoveAtOnce() {
  const Slot slot = AnySlot();
  ClusterNode& from = Owner(slot);
  ClusterNode& to = Another(from);
  if (healed_ || moving_.contains(slot) || !from.CanMoveTo(to)) return;
  env_.Log([&] { return "slot " + std::to_string(slot) + " is at " + to.name() + " now"; });
  Note(from, Duration(0));
  // Nobody looks between two keys.
  moving_.insert(slot);
  for (const std::string& key : from.KeysOf(slot)) from.MoveKey(key, to);
  moving_.erase(slot);
  Tell(slot, from, to);
  from.Believe(slot, to.number());
  moved_();
}

void ClusterSet::Storm() {
  for (int i = 2 + env_.dice.Roll(6); i > 0; --i) {
    env_.time.After(env_.dice.Between(Duration(0), milliseconds(300)), [this] { MoveAtOnce(); });
  }
}

void ClusterSet::Uncover() {
  const Slot slot = AnySlot();
  if (healed_ || !moving_.insert(slot).second) return;
  const Duration time = env_.dice.Between(milliseconds(10), seconds(3));
  Note(Owner(slot), time);
  for (const auto& node : nodes_) node->Believe(slot, ClusterNode::kNobody);
  env_.time.After(time, [this, slot] {
    for (const auto& node : nodes_) node->Believe(slot, owner_[slot]);
    moving_.erase(slot);
  });
}

void ClusterSet::Isolate() {
  ClusterNode& node = AnyNode();
  node.KnowOnlyItself(true);
  env_.time.After(env_.dice.Between(seconds(1), seconds(20)), [&node] { node.KnowOnlyItself(false); });
}

}  // namespace distlock::sim
