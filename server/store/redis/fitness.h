// SPDX-License-Identifier: Apache-2.0
//
// Whether a server may keep locks, judged by its own INFO. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "store/redis/server_identity.h"

namespace distlock::store {

struct Fitness {
  // Unavailable: unfit now, may pass (loading, a replica). FailedPrecondition, Unimplemented: unfit until somebody
  // changes it.
  absl::Status status;
  std::vector<std::string> warnings;
};

// "": held locks stay when memory is short.
std::string MisfitOfPolicy(std::string_view maxmemory_policy);

// `save_points` and `appendfsync` are the replies to CONFIG GET of these, or "?" when the user may not ask.
// `of_cluster`: it is to be a node of a Cluster; else it must not be one.
Fitness JudgeFitness(const ServerInfo& info, std::string_view save_points, bool of_cluster = false,
                     std::string_view appendfsync = "?");

}  // namespace distlock::store
