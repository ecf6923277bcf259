// SPDX-License-Identifier: Apache-2.0
#include "simulation/cluster_set.h"

#include <algorithm>
#include <utility>

#include "simulation/partition.h"
#include "simulation/store_observer.h"
#include "store/cluster/cluster_store.h"
#include "store/redis/server_identity.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

// No connection has it.
constexpr int kAdministrator = 1'000'000;
constexpr Duration kAftermath = seconds(6);  // until brokers have looked for what they may have missed

}  // namespace

ClusterSet::ClusterSet(Env& env, Directory& directory, std::function<void()> moved)
    : env_(env), moved_(std::move(moved)) {
  const int count = kPrimaries * (env.temper.failing_nodes ? 1 + kReplicas : 1);
  const auto replicas_of = [this](int primary) {
    std::vector<int> numbers;
    for (const ClusterNode* node : GroupOf(*nodes_[static_cast<size_t>(primary)])) {
      if (node->number() != primary && node->alive()) numbers.push_back(node->number());
    }
    return numbers;
  };
  for (int i = 0; i < count; ++i) {
    nodes_.push_back(std::make_unique<ClusterNode>(env, i, replicas_of));
    directory.Lead(ClusterNode::HostOf(i), *nodes_.back());
    if (i < kPrimaries) primaries_.push_back(nodes_.back().get());
  }
  for (const auto& node : nodes_) {
    node->DemandReplicas(env.temper.guard == FailoverGuard::kMinReplicas ? 1 : 0, seconds(1));
    if (node->number() >= kPrimaries) node->Follow(*nodes_[static_cast<size_t>(node->number() % kPrimaries)], false);
  }
  for (size_t slot = 0; slot < store::kSlots; ++slot) {
    owner_[slot] = static_cast<int8_t>(slot * kPrimaries / store::kSlots);
    for (const auto& node : nodes_) node->Believe(static_cast<Slot>(slot), owner_[slot]);
  }
  if (env.temper.skewed_nodes) {
    // Clocks of machines that nobody keeps together; only where each holder's end is kept as a time to live.
    for (const auto& node : nodes_) node->StepClock(env.dice.Between(milliseconds(-200), milliseconds(200)));
  } else {
    const int drift_ppm = env.dice.Roll(2 * env.temper.drift_ppm + 1) - env.temper.drift_ppm;
    for (const auto& node : nodes_) {
      node->KeepTogether(drift_ppm, env.dice.Between(Duration(0), store::ClusterStore::kTraits.clock_spread));
    }
  }
}

std::vector<store::ServerAddress> ClusterSet::Seeds() const {
  std::vector<store::ServerAddress> seeds;
  for (int i = 0; i < kPrimaries; ++i) seeds.push_back({.host = ClusterNode::HostOf(i), .port = ClusterNode::kPort});
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
  const auto at = std::ranges::find(primaries_, &than) - primaries_.begin();
  return *primaries_[static_cast<size_t>((at + 1 + env_.dice.Roll(kPrimaries - 1)) % kPrimaries)];
}

// Brokers may miss notices meanwhile, and commands are refused.
void ClusterSet::Note(const ClusterNode& node, Duration lasts) {
  env_.NoteFault(FaultKind::kStoreRefuses, node.actor(), lasts + kLongestNews + kAftermath);
  env_.NoteFault(FaultKind::kChannelLost, node.actor(), lasts + kLongestNews + kAftermath);
}

// As an operator sees it in the status of a broker; here from the marker that brokers write.
bool ClusterSet::HoldsOff(ClusterNode& node) {
  if (!env_.temper.failing_nodes) return false;
  const store::ReplyPtr info = node.model().Execute(kAdministrator, {"INFO"});
  const std::string identity = store::IdentityOf(store::ServerInfo(store::Text(*info))).DataIdentity();
  bool counted = false;
  for (const KeyFacts& facts : node.model().Keys()) {
    if (!facts.key.ends_with("}:m")) continue;
    const std::vector<std::string_view> parts = store::Split(node.model().String(facts.key).value_or(""), ";");
    if (parts.size() != 4 || parts[0] != identity) continue;
    const int64_t since_us = store::ParseNumber(parts[1]).value_or(0);
    const int64_t until_us = since_us + 1000 * store::ParseNumber(parts[2]).value_or(0);
    if (since_us == 0 || node.model().now_us() < until_us) return true;
    counted = true;
  }
  return !counted;
}

bool ClusterSet::MayMove(Slot slot, ClusterNode& from, ClusterNode& to) {
  const auto reached = [this](const ClusterNode& node) { return node.running() && !CutAway(env_, node); };
  return !healed_ && !moving_.contains(slot) && reached(from) && reached(to) && !HoldsOff(from);
}

// ---- Failovers ----

std::vector<ClusterNode*> ClusterSet::GroupOf(const ClusterNode& node) const {
  std::vector<ClusterNode*> group;
  for (const auto& one : nodes_) {
    if (one->number() % kPrimaries == node.number() % kPrimaries) group.push_back(one.get());
  }
  return group;
}

bool ClusterSet::Moves(const ClusterNode& node) const {
  return std::ranges::any_of(moving_,
                             [&](const auto& move) { return move.second.from == &node || move.second.to == &node; });
}

void ClusterSet::TakeOver(ClusterNode& old, ClusterNode& next) {
  std::ranges::replace(primaries_, &old, &next);
  std::ranges::replace(owner_, static_cast<int8_t>(old.number()), static_cast<int8_t>(next.number()));
  Learn(next);
  for (const auto& node : nodes_) {
    if (node.get() == &old || node.get() == &next) continue;
    env_.time.After(env_.dice.Between(Duration(0), kLongestNews), [this, node = node.get()] { Learn(*node); });
  }
}

void ClusterSet::Learn(ClusterNode& node) {
  for (size_t slot = 0; slot < store::kSlots; ++slot) {
    // A slot that nobody has for a while is told of again when that ends.
    if (node.owner_of(static_cast<Slot>(slot)) == ClusterNode::kNobody) continue;
    node.Believe(static_cast<Slot>(slot), owner_[slot]);
  }
}

// ---- Moves ----

void ClusterSet::Reshard() {
  const Slot slot = AnySlot();
  ClusterNode& from = Owner(slot);
  ClusterNode& to = Another(from);
  if (!MayMove(slot, from, to)) return;
  moving_[slot] = {&from, &to};
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
  if (!MayMove(slot, from, to) || !from.CanMoveTo(to)) return;
  env_.Log([&] { return "slot " + std::to_string(slot) + " is at " + to.name() + " now"; });
  Note(from, Duration(0));
  // No look falls between two keys.
  moving_[slot] = {&from, &to};
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
  if (healed_ || moving_.contains(slot)) return;
  moving_[slot] = {&Owner(slot), &Owner(slot)};
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
  // Or two, each alone: then nobody's map is confirmed by another, and only one node knows all.
  ClusterNode& other = env_.dice.Chance(0.5) ? Another(node) : node;
  node.KnowOnlyItself(true);
  other.KnowOnlyItself(true);
  env_.time.After(env_.dice.Between(seconds(1), seconds(20)), [&node, &other] {
    node.KnowOnlyItself(false);
    other.KnowOnlyItself(false);
  });
}

}  // namespace distlock::sim
