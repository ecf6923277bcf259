// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/slot_map.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
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
      // The node that said so first is remembered, because it confirms nothing by saying so again.
      if (doubted_ != report) {
        doubted_ = report;
        doubted_from_ = from;
      }
      return Verdict::kDoubted;
    }
  }
  doubted_.reset();
  const std::vector<Run> before = std::exchange(runs_, {Run{}});
  for (auto& node : nodes_) {
    if (node) node->replicas = 0;
  }
  for (const auto& range : report.ranges) {
    const NodeNumber number = Find(range);
    nodes_[number]->replicas = std::max(nodes_[number]->replicas, range.replicas);
    Set(range.first, range.last, number);
  }
  Recount();
  changes_ += before != runs_;
  return Verdict::kAdopted;
}

NodeNumber SlotMap::Patch(Slot slot, const ServerAddress& to) {
  const NodeNumber number = NodeAt(to);
  changes_ += At(slot) != number;
  Set(slot, slot, number);
  Recount();
  return number;
}

NodeNumber SlotMap::NodeAt(const ServerAddress& address) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] && nodes_[i]->address == address) return static_cast<NodeNumber>(i);
  }
  return Add({.address = address, .id = {}, .lowest = {}, .highest = {}});
}

NodeNumber SlotMap::At(Slot slot) const {
  return std::prev(std::ranges::upper_bound(runs_, slot, {}, &Run::first))->node;
}

void SlotMap::Set(Slot first, Slot last, NodeNumber node) {
  const bool at_end = size_t{last} + 1 == kSlots;
  const auto behind = static_cast<Slot>(last + 1);
  const NodeNumber node_behind = at_end ? kNoNode : At(behind);
  const auto from = std::ranges::lower_bound(runs_, first, {}, &Run::first);
  const auto to = at_end ? runs_.end() : std::ranges::upper_bound(runs_, behind, {}, &Run::first);
  absl::InlinedVector<Run, 2> instead;
  if (from == runs_.begin() || std::prev(from)->node != node) instead.push_back({first, node});
  if (!at_end && node_behind != node) instead.push_back({behind, node_behind});
  runs_.insert(runs_.erase(from, to), instead.begin(), instead.end());
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
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (runs_[i].node == kNoNode) continue;
    Node& node = *nodes_[runs_[i].node];
    const size_t end = i + 1 < runs_.size() ? runs_[i + 1].first : kSlots;
    covered_ += end - runs_[i].first;
    node.slots += end - runs_[i].first;
    if (!node.lowest) node.lowest = runs_[i].first;
    node.highest = static_cast<Slot>(end - 1);
  }
}

}  // namespace distlock::store
