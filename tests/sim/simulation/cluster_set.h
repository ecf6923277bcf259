// SPDX-License-Identifier: Apache-2.0
//
// The stores of a Cluster simulation: three primaries that share the slots, in some simulations with two replicas each,
// and what moves the slots: key by key as an operator reshards, at once, to and fro. Each node hears of the moves of
// others in its own time, so that maps are old. No slot leaves a node that holds off, as deploy/topologies.md asks of
// operators.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulation/cluster_node.h"
#include "simulation/network.h"
#include "store/store_url.h"

namespace distlock::sim {

class ClusterSet {
 public:
  static constexpr int kPrimaries = 3;
  static constexpr int kReplicas = 2;                   // of each primary, in simulations with failovers
  static constexpr Duration kLongestNews = seconds(2);  // until every node knows who has a slot now

  // `moved` is called when the node of a lock may be another than before.
  ClusterSet(Env& env, Directory& directory, std::function<void()> moved);

  std::vector<store::ServerAddress> Seeds() const;
  // A primary.
  ClusterNode& AnyNode() { return *env_.dice.Pick(primaries_); }
  // One that has a lock's slot.
  ClusterNode& AnyNodeWithLock() { return Owner(AnySlot()); }
  const std::vector<std::unique_ptr<ClusterNode>>& nodes() const { return nodes_; }
  // Where the keys of a lock are that its calls name; null while they are at two nodes.
  ClusterNode* NodeOf(const std::string& lock);

  // ---- ClusterFailover needs these ----

  const std::vector<ClusterNode*>& primaries() const { return primaries_; }
  // The primary and its replicas: all that have the data of one of them.
  std::vector<ClusterNode*> GroupOf(const ClusterNode& node) const;
  // A slot is on its way from it, or to it.
  bool Moves(const ClusterNode& node) const;
  // `next` has the slots of `old` now, and knows it; the others hear of it later.
  void TakeOver(ClusterNode& old, ClusterNode& next);
  // The node hears who has which slot.
  void Learn(ClusterNode& node);

  // ---- Moves ----

  // A slot of a lock goes to another node, key by key: it does not matter which keys go first.
  void Reshard();
  // At once, as Valkey 9 does it.
  void MoveAtOnce();
  // A slot goes to and fro, faster than the news of it.
  void Storm();
  // Hides a lock's slot from all nodes a while.
  void Uncover();
  // A node, or each of two, names itself alone when it is asked.
  void Isolate();
  // No new moves; those under way end.
  void Heal() { healed_ = true; }

 private:
  Slot AnySlot();
  ClusterNode& Owner(Slot slot) { return *nodes_[static_cast<size_t>(owner_[slot])]; }
  ClusterNode& Another(const ClusterNode& than);
  // Brokers grant nobody a lock newly there, or may not: it is a new primary or run, or its replicas are awaited.
  bool HoldsOff(ClusterNode& node);
  bool MayMove(Slot slot, ClusterNode& from, ClusterNode& to);
  void Step(Slot slot, ClusterNode& from, ClusterNode& to);
  void Hand(Slot slot, ClusterNode& from, ClusterNode& to);
  // The new owner knows it now, the old one soon, the others later.
  void Tell(Slot slot, ClusterNode& from, ClusterNode& to);
  void Note(const ClusterNode& node, Duration lasts);

  Env& env_;
  const std::function<void()> moved_;
  std::vector<std::unique_ptr<ClusterNode>> nodes_;  // the first are the primaries of the beginning
  std::vector<ClusterNode*> primaries_;              // that have slots now
  std::array<int8_t, store::kSlots> owner_{};
  struct Move {
    const ClusterNode* from;
    const ClusterNode* to;
  };
  std::map<Slot, Move> moving_;  // a slot that nobody has for a while is one that moves from its node to itself
  bool healed_ = false;
};

}  // namespace distlock::sim
