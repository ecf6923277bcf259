// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/cluster_fitness.h"

#include "store/text.h"

namespace distlock::store {
namespace {

// From the node-timeout to a new primary that serves: the votes, and the time until we hear of it.
constexpr core::Duration kFailoverTakes = std::chrono::seconds(3);

int64_t Ms(core::Duration time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time).count(); }

}  // namespace

Fitness JudgeCluster(const ClusterReport& report, const ClusterWishes& wishes) {
  Fitness fitness;
  if (report.node_timeout && wishes.usual_ttl < *report.node_timeout + kFailoverTakes) {
    fitness.warnings.push_back(Cat("leases of ", Ms(wishes.usual_ttl),
                                   " ms do not survive a failover here: cluster-node-timeout is ",
                                   Ms(*report.node_timeout), " ms; set --default-ttl to at least ",
                                   Ms(*report.node_timeout + kFailoverTakes), " ms, or lower cluster-node-timeout"));
  }
  if (report.full_coverage == true) {
    fitness.warnings.push_back(
        "cluster-require-full-coverage is yes: while one primary is away, all nodes refuse all locks; set it to no, so "
        "that only the locks of that primary wait");
  }
  if (wishes.wait_replicas == 0) return fitness;
  for (const auto& range : report.slots.ranges) {
    if (range.replicas >= wishes.wait_replicas) continue;
    fitness.status = absl::FailedPreconditionError(Cat("--wait-replicas is ", wishes.wait_replicas,
                                                       ", but the primary ", range.primary.Text(), " has ",
                                                       range.replicas, " replicas: add replicas, or ask for fewer"));
    break;
  }
  return fitness;
}

}  // namespace distlock::store
