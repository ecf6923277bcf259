// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/nodes.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/check.h"
#include "store/text.h"

namespace distlock::store::ballot {

Nodes::Nodes(const Config& config)
    : longest_ttl_(config.longest_ttl), nodes_(config.nodes, Node(config.clock_drift_ppm)) {
  DISTLOCK_CHECK(config.nodes % 2 == 1 && config.nodes <= kMaxNodes);
}

void Nodes::Up(NodeIndex node, const ServerClock& clock) {
  nodes_[node].clock = clock;
  nodes_[node].up = true;
  up_ |= uint32_t{1} << node;
}

void Nodes::Down(NodeIndex node, std::string cause) {
  nodes_[node].up = false;
  up_ &= ~(uint32_t{1} << node);
  nodes_[node].cause = std::move(cause);
}

void Nodes::Judge(const NodeFitness& fitness) {
  nodes_[fitness.node].held_off = fitness.held_off;
  nodes_[fitness.node].held_off_until = fitness.held_off_until;
  nodes_[fitness.node].misfit = fitness.misfit;
}

std::optional<Duration> Nodes::Learn(NodeIndex node, Instant sent, Instant received, core::StoreTime time) {
  Node& one = nodes_[node];
  const Duration took = std::max(received - sent, Duration::zero());
  one.trip = (one.trip * 7 + std::min(took, kLongestTrip)) / 8;
  const auto step = one.clock.Learn(sent, received, time);
  if (step) Suspect(node, received);
  return step;
}

void Nodes::Suspect(NodeIndex node, Instant now) { nodes_[node].suspect_until = now + longest_ttl_; }

std::optional<Duration> Nodes::MedianOffset(Instant now) const {
  std::array<Duration, kMaxNodes> offsets{};
  size_t count = 0;
  for (const Node& node : nodes_) {
    if (node.up && node.clock.known()) offsets[count++] = node.clock.Offset(now);
  }
  if (count == 0) return std::nullopt;
  return store::MedianOffset(std::span(offsets).first(count));
}

int64_t Nodes::Time(Instant now) const {
  const auto offset = MedianOffset(now);
  if (!offset) return 0;
  return std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch() + *offset).count();
}

bool Nodes::MayBeMistaken(NodeIndex node, core::StoreTime stamp, uint64_t token, Instant now) const {
  const core::StoreTime given{static_cast<int64_t>(token)};
  if (stamp.us <= given.us + kMostSkew / std::chrono::microseconds(1)) return false;
  return !HasCountedSince(node, Earliest(node, given, now));
}

std::optional<Duration> Nodes::Skew(NodeIndex node, Instant now) const {
  const auto median = MedianOffset(now);
  if (!median || !nodes_[node].clock.known()) return std::nullopt;
  return nodes_[node].clock.Offset(now) - *median;
}

std::string Nodes::WhyNot(NodeIndex node, Instant now) const {
  const Node& one = nodes_[node];
  if (!one.up) return one.cause;
  if (!one.misfit.empty()) return one.misfit;
  if (one.held_off) return "it may have forgotten locks when it was started";
  if (now < one.suspect_until) return "its clock was set";
  const auto skew = Skew(node, now);
  if (!skew) return "its clock is not known yet";
  if (*skew > kMostSkew || *skew < -kMostSkew) {
    return Cat("its clock is ", std::chrono::duration_cast<std::chrono::milliseconds>(*skew).count(),
               " ms ahead of the others'");
  }
  return "";
}

Duration Nodes::HeldOffFor(Instant now) const {
  if (static_cast<size_t>(__builtin_popcount(counting_)) >= quorum()) return {};
  std::vector<Instant> counts_from;
  for (NodeIndex node = 0; node < nodes_.size(); ++node) {
    const Node& one = nodes_[node];
    if (!one.up || !one.misfit.empty()) continue;
    counts_from.push_back(std::max(one.held_off ? one.held_off_until : Instant{}, one.suspect_until));
    if (WhyNot(node, now).empty()) counts_from.back() = now;
  }
  if (counts_from.size() < quorum()) return {};
  std::sort(counts_from.begin(), counts_from.end());
  const Instant until = counts_from[quorum() - 1];
  return until == core::kNever ? kLookAtOpenEnd : std::max(until - now, Duration::zero());
}

size_t Nodes::CountUp() const {
  return std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.up && node.misfit.empty(); });
}

uint32_t Nodes::Refresh(Instant now) {
  uint32_t begun = 0;
  uint32_t counting = 0;
  for (NodeIndex i = 0; i < nodes_.size(); ++i) {
    if (!WhyNot(i, now).empty()) continue;
    counting |= uint32_t{1} << i;
    if ((counting_ >> i & 1) != 0) continue;
    nodes_[i].counts_since = now;
    begun |= uint32_t{1} << i;
  }
  counting_ = counting;
  return begun;
}

std::string Nodes::Trouble() const {
  std::string text = Cat(CountUp(), " of ", nodes_.size(), " servers can be reached, ", quorum(), " are needed");
  for (const Node& node : nodes_) {
    if (!node.up) Append(text, "; ", node.cause);
    if (node.up && !node.misfit.empty()) Append(text, "; ", node.misfit);
  }
  return text;
}

Place Nodes::NextPlace(Instant now, bool preferred) {
  last_place_ = std::max<Place>(last_place_ + 1, Time(now));
  return last_place_ + (preferred ? kPreferredShift : 0);
}

void Nodes::PassPlace(Place place, Instant now) {
  constexpr Place kMostAhead = std::chrono::duration_cast<std::chrono::microseconds>(2 * kMostSkew).count();
  last_place_ = std::max(last_place_, std::min(SameShift(place, 0), Place{Time(now)} + kMostAhead));
}

Duration Nodes::Trip() const {
  std::array<Duration, kMaxNodes> trips{};
  size_t count = 0;
  for (const Node& node : nodes_) {
    if (node.up) trips[count++] = node.trip;
  }
  if (count == 0) return kLongestTrip;
  std::sort(trips.begin(), trips.begin() + count);
  return std::clamp(trips[std::min(quorum(), count) - 1], kShortestTrip, kLongestTrip);
}

Instant Nodes::NextChange(Instant now) const {
  Instant next = core::kNever;
  for (const Node& node : nodes_) {
    if (node.suspect_until > now) next = std::min(next, node.suspect_until);
  }
  return next;
}

}  // namespace distlock::store::ballot
