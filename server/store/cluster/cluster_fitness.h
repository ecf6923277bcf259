// SPDX-License-Identifier: Apache-2.0
//
// Whether a Cluster may keep locks, as far as its nodes' own fitness does not show it. Pure; any thread.
#pragma once

#include "core/types.h"
#include "store/cluster/scout.h"
#include "store/redis/fitness.h"

namespace distlock::store {

struct ClusterWishes {
  core::Duration usual_ttl{};  // of a lease
  int wait_replicas = 0;
};

// FailedPrecondition: somebody has to change something.
Fitness JudgeCluster(const ClusterReport& report, const ClusterWishes& wishes);

}  // namespace distlock::store
