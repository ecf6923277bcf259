// SPDX-License-Identifier: Apache-2.0
#include "exhaustive/explorer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "exhaustive/small_system.h"

namespace distlock::sim {
namespace {

using Clock = std::chrono::steady_clock;

struct Node {
  Path path;
  std::vector<Action> enabled;
  double paths = 1;  // of this length that lead here
};

class Search {
 public:
  Search(const Setting& setting, double seconds_max) : setting_(setting), seconds_max_(seconds_max) {}

  Exploration Run(int depth) {
    SmallSystem first(setting_, store_);
    for (const Action& step : setting_.start) first.Do(step);
    frontier_.push_back({setting_.start, first.Enabled(), 1});
    seen_.insert(first.Fingerprint());
    while (found_.depth < depth && found_.fault.empty() && !Late()) {
      if (!Deepen(found_.depth + 1 < depth)) break;
    }
    found_.states = seen_.size();
    found_.seconds = Seconds();
    return found_;
  }

 private:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool Late() const { return seconds_max_ > 0 && Seconds() > seconds_max_; }

  // One action more; false: it was not finished.
  bool Deepen(bool keep) {
    next_.clear();
    index_.clear();
    double paths = 0;
    for (const Node& node : frontier_) {
      for (const Action action : node.enabled) {
        if (!Try(node, action, keep)) return false;
        paths += node.paths;
      }
      if (Late()) return false;
    }
    ++found_.depth;
    found_.paths = paths;
    frontier_ = std::move(next_);
    return true;
  }

  bool Try(const Node& node, Action action, bool keep) {
    ++found_.steps;
    SmallSystem simulation(setting_, store_);
    for (const Action& step : node.path) simulation.Do(step);
    simulation.Do(action);
    Path path = node.path;
    path.push_back(action);
    const uint64_t print = simulation.Fingerprint();
    if (simulation.fault().empty() && !seen_.insert(print).second) {
      if (const auto known = index_.find(print); known != index_.end()) next_[known->second].paths += node.paths;
      return true;
    }
    std::vector<Action> enabled;
    if (keep) enabled = simulation.Enabled();
    simulation.Finish();
    found_.served_after = std::max(found_.served_after, simulation.served_after());
    if (!simulation.fault().empty()) {
      found_.fault = simulation.fault();
      found_.fault_path = std::move(path);
      return false;
    }
    if (!keep) return true;
    index_.emplace(print, next_.size());
    next_.push_back({std::move(path), std::move(enabled), node.paths});
    return true;
  }

  const Setting& setting_;
  const double seconds_max_;
  const Clock::time_point start_ = Clock::now();
  SmallStore store_;
  absl::flat_hash_set<uint64_t> seen_;
  std::vector<Node> frontier_;
  std::vector<Node> next_;
  absl::flat_hash_map<uint64_t, size_t> index_;  // of fingerprints in next_
  Exploration found_;
};

}  // namespace

Exploration Explore(const Setting& setting, int depth, double seconds_max) {
  return Search(setting, seconds_max).Run(depth);
}

std::string Replay(const Setting& setting, const Path& path, const std::function<void(const std::string&)>& log) {
  SmallStore store;
  SmallSystem simulation(setting, store, log);
  for (const Action& action : path) simulation.Do(action);
  log("the fair end");
  simulation.Finish();
  return simulation.fault();
}

}  // namespace distlock::sim
