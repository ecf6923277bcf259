// SPDX-License-Identifier: Apache-2.0
#include "store/sentinel/sentinel_fitness.h"

#include <algorithm>
#include <chrono>

#include "store/text.h"

namespace distlock::store {
namespace {

// From the moment when the primary is taken for dead until the broker has reached the promoted one, with some room.
constexpr core::Duration kFailoverTakes = std::chrono::seconds(3);

int64_t Ms(core::Duration time) { return std::chrono::ceil<std::chrono::milliseconds>(time).count(); }

absl::Status JudgeChains(const SetFacts& facts) {
  if (!facts.replicas || facts.failing_over) return absl::OkStatus();
  for (const ReplicaFacts& one : *facts.replicas) {
    const auto above = std::find_if(facts.replicas->begin(), facts.replicas->end(), [&](const ReplicaFacts& other) {
      return one.up && other.up && other.address == one.follows;
    });
    if (above == facts.replicas->end()) continue;
    return absl::UnavailableError(
        Cat("the replica ", one.address.Text(), " follows the replica ", one.follows.Text(),
            " instead of the primary: what such a chain confirms says nothing about a failover. After a failover this "
            "passes; if it lasts, run REPLICAOF on it with the primary's address"));
  }
  return absl::OkStatus();
}

}  // namespace

Fitness JudgeSet(const SetFacts& facts, const SetWishes& wishes) {
  Fitness fitness{JudgeChains(facts), {}};
  const int replicas = facts.replica_count;
  if (fitness.status.ok() && wishes.wait_replicas > replicas) {
    fitness.status = absl::FailedPreconditionError(Cat(
        "--wait-replicas is ", wishes.wait_replicas, ", but '", wishes.primary_name, "' has ", replicas,
        replicas == 1 ? " replica" : " replicas", ", so no grant could ever be confirmed; lower it or add replicas"));
  }
  if (facts.down_after > core::Duration::zero() && wishes.usual_ttl <= facts.down_after + kFailoverTakes) {
    fitness.warnings.push_back(
        Cat("leases of ", Ms(wishes.usual_ttl), " ms do not survive a failover here: down-after-milliseconds is ",
            Ms(facts.down_after), " ms, and the failover itself takes up to ", Ms(kFailoverTakes),
            " ms; use a --default-ttl of more than ", Ms(facts.down_after + kFailoverTakes),
            " ms, or run SENTINEL SET ", wishes.primary_name, " down-after-milliseconds with less on each sentinel"));
  }
  if (facts.replicas && !facts.replicas->empty()) {
    const auto [low, high] =
        std::minmax_element(facts.replicas->begin(), facts.replicas->end(),
                            [](const ReplicaFacts& a, const ReplicaFacts& b) { return a.priority < b.priority; });
    if (low->priority != high->priority) {
      fitness.warnings.push_back(Cat("the replicas' priorities differ (", low->address.Text(), " has ", low->priority,
                                     ", ", high->address.Text(), " has ", high->priority,
                                     "): a failover takes the lowest one above 0 even when another replica has newer "
                                     "data; set the same replica-priority on all"));
    }
  }
  return fitness;
}

}  // namespace distlock::store
