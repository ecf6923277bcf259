// SPDX-License-Identifier: Apache-2.0
//
// Which node of a Cluster has which slot. Pure.
//
// Nodes are numbered by this broker, and keep their number while they are known. A node is known by the address at
// which the Cluster says it is, and by its id, so that one that has got another address stays the same node.
//
// No node is believed blindly. One that has lost touch with the others may name itself alone: a map that covers less
// than 90 % of the slots of the present one is adopted only once a second node says the same. MOVED is believed at
// once, for its one slot: it comes from a node that has just given the slot up.
//
// Thread: the loop's. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/cluster/hash_slot.h"
#include "store/store_url.h"

namespace distlock::store {

using NodeNumber = uint16_t;
inline constexpr NodeNumber kNoNode = 0xffff;

// A node's answer to CLUSTER SLOTS: what is usable of it.
struct SlotsReport {
  struct Range {
    Slot first = 0;
    Slot last = 0;
    ServerAddress primary;
    std::string id;    // of the primary
    int replicas = 0;  // of it
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;
  bool operator==(const SlotsReport&) const = default;
};

class SlotMap {
 public:
  struct Node {
    ServerAddress address;
    std::string id;  // "": not known yet
    int replicas = 0;
    size_t slots = 0;            // how many it has
    std::optional<Slot> lowest;  // of them
    std::optional<Slot> highest;
  };
  enum class Verdict : uint8_t {
    kAdopted,
    kDoubted,  // it covers too little; another node is to be asked
    kEmpty,    // it covers nothing
  };

  // `from` answered: its id, or its address where no id is known.
  Verdict Adopt(const SlotsReport& report, const std::string& from);
  // A node says that the slot is at `to`. Returns the number of the node there, which may be a new one.
  NodeNumber Patch(Slot slot, const ServerAddress& to);
  // The number of the node at `address`: a known one, or a new one without slots.
  NodeNumber NodeAt(const ServerAddress& address);
  // The node is not needed any more. REQUIRES: it has no slots.
  void Forget(NodeNumber node);

  // kNoNode: nobody has it, as far as is known.
  NodeNumber At(Slot slot) const;
  // By their numbers; nullopt where a node was forgotten.
  const std::vector<std::optional<Node>>& nodes() const { return nodes_; }
  size_t covered() const { return covered_; }
  // Grows when a slot has got another node.
  uint64_t changes() const { return changes_; }

 private:
  // Slots one after the other that have the same node, up to where the next run begins.
  struct Run {
    Slot first = 0;
    NodeNumber node = kNoNode;
    bool operator==(const Run&) const = default;
  };

  void Set(Slot first, Slot last, NodeNumber node);
  NodeNumber Add(Node node);
  NodeNumber Find(const SlotsReport::Range& range);
  void Recount();

  // All slots, in order; neighbours have different nodes. A Cluster has few, and each shard has a map of its own: an
  // entry for each slot would take 32 KiB a shard.
  std::vector<Run> runs_ = {Run{}};
  std::vector<std::optional<Node>> nodes_;
  size_t covered_ = 0;
  uint64_t changes_ = 0;
  std::optional<SlotsReport> doubted_;
  std::string doubted_from_;
};

}  // namespace distlock::store
