// SPDX-License-Identifier: Apache-2.0
//
// The stores of a Cluster world: three primaries that share the slots, and what moves these: key by key as an operator
// reshards, at once, to and fro. Each node hears of the moves of others in its own time, so that maps are old.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/store_url.h"
#include "world/cluster_node.h"
#include "world/network.h"

namespace distlock::sim {

class ClusterSet {
 public:
  static constexpr int kNodes = 3;

  // `moved` is called when the node of a lock may be another than before.
  ClusterSet(Env& env, Directory& directory, std::function<void()> moved);

  std::vector<store::ServerAddress> Seeds() const;
  ClusterNode& AnyNode() { return *nodes_[static_cast<size_t>(env_.dice.Roll(kNodes))]; }
  const std::vector<std::unique_ptr<ClusterNode>>& nodes() const { return nodes_; }
  // Where the keys of a lock are that its calls name; null while they are at two nodes.
  ClusterNode* NodeOf(const std::string& lock);

  // A slot of a lock goes to another node, key by key: it does not matter which keys go first.
  void Reshard();
  // At once, as Valkey 9 does it.
  void MoveAtOnce();
  // A slot goes to and fro, faster than the news of it.
  void Storm();
  // Nobody has a slot of a lock for a while.
  void Uncover();
  // A node names itself alone when it is asked.
  void Isolate();
  // No new moves; those under way end.
  void Heal() { healed_ = true; }

 private:
  Slot AnySlot();
  ClusterNode& Owner(Slot slot) { return *nodes_[static_cast<size_t>(owner_[slot])]; }
  ClusterNode& Another(const ClusterNode& than);
  void Step(Slot slot, ClusterNode& from, ClusterNode& to);
  void Hand(Slot slot, ClusterNode& from, ClusterNode& to);
  // The new owner knows it now, the old one soon, the others later.
  void Tell(Slot slot, ClusterNode& from, ClusterNode& to);
  void Note(const ClusterNode& node, Duration lasts);

  Env& env_;
  const std::function<void()> moved_;
  std::vector<std::unique_ptr<ClusterNode>> nodes_;
  std::array<int8_t, store::kSlots> owner_{};
  std::set<Slot> moving_;
  bool healed_ = false;
};

}  // namespace distlock::sim
