// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/slot_map.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace distlock::store {
namespace {

constexpr size_t kEnoughPercent = 90;

size_t CoveredBy(const SlotsReport& report) {
  size_t covered = 0;
  for (const auto& range : report.ranges) covered += size_t{range.last} - range.first + 1;
  return covered;
}

}  // namespace

SlotMap::Verdict SlotMap::Adopt(const SlotsReport& report, const std::string& from) {
  const size_t covers = CoveredBy(report);
  if (covers == 0) return Verdict::kEmpty;
  if (covers * 100 < covered_ * kEnoughPercent) {
    const bool confirmed = doubted_ == report && doubted_from_ != from;
    if (!confirmed) {
      // Who has said so first is remembered, so that its repeating itself confirms nothing.
      if (doubted_ != report) {
        doubted_ = report;
        doubted_from_ = from;
      }
      return Verdict::kDoubted;
    }
  }
  doubted_.reset();
  const auto before = at_;
  at_.fill(kNoNode);
  for (auto& node : nodes_) {
    if (node) node->replicas = 0;
  }
  for (const auto& range : report.ranges) {
    const NodeNumber number = Find(range);
    nodes_[number]->replicas = std::max(nodes_[number]->replicas, range.replicas);
    std::fill(at_.begin() + range.first, at_.begin() + range.last + 1, number);
  }
  Recount();
  changes_ += before != at_;
  return Verdict::kAdopted;
}

NodeNumber SlotMap::Patch(Slot slot, const ServerAddress& to) {
  const NodeNumber number = NodeAt(to);
  changes_ += std::exchange(at_[slot], number) != number;
  Recount();
  return number;
}

NodeNumber SlotMap::NodeAt(const ServerAddress& address) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] && nodes_[i]->address == address) return static_cast<NodeNumber>(i);
  }
  return Add({.address = address, .id = {}, .lowest = {}, .highest = {}});
}

void SlotMap::Forget(NodeNumber node) {
  DISTLOCK_CHECK(nodes_.at(node)->slots == 0);
  nodes_[node].reset();
}

NodeNumber SlotMap::Add(Node node) {
  const auto free = std::find(nodes_.begin(), nodes_.end(), std::nullopt);
  const auto number = static_cast<NodeNumber>(free - nodes_.begin());
  if (free == nodes_.end()) {
    nodes_.emplace_back(std::move(node));
  } else {
    *free = std::move(node);
  }
  return number;
}

// By its id, wherever it is now. Else by its address, unless another id was known there: then another node has come to
// that address, and is a new one.
NodeNumber SlotMap::Find(const SlotsReport::Range& range) {
  if (!range.id.empty()) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i] || nodes_[i]->id != range.id) continue;
      nodes_[i]->address = range.primary;
      return static_cast<NodeNumber>(i);
    }
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i] || nodes_[i]->address != range.primary) continue;
    if (!nodes_[i]->id.empty() && !range.id.empty()) continue;
    if (!range.id.empty()) nodes_[i]->id = range.id;
    return static_cast<NodeNumber>(i);
  }
  return Add({.address = range.primary, .id = range.id, .lowest = {}, .highest = {}});
}

void SlotMap::Recount() {
  covered_ = 0;
  for (auto& node : nodes_) {
    if (!node) continue;
    node->slots = 0;
    node->lowest.reset();
    node->highest.reset();
  }
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (at_[slot] == kNoNode) continue;
    Node& node = *nodes_[at_[slot]];
    ++covered_;
    ++node.slots;
    if (!node.lowest) node.lowest = static_cast<Slot>(slot);
    node.highest = static_cast<Slot>(slot);
  }
}

}  // namespace distlock::store
