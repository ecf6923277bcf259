// SPDX-License-Identifier: Apache-2.0
//
// Whether a server may keep locks, judged by its own INFO and settings. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "store/redis/resp.h"
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

// The server's scripts write with fewer replicas than min-replicas-to-write asks for, too: Redis before 6.2.7.
bool ScriptsPassMinReplicas(std::string_view version);

// How a server appends its writes to a file, by its settings: "?" when the user may not ask.
struct AppendSettings {
  std::string appendonly = "?";
  std::string appendfsync = "?";
  std::string no_fsync_on_rewrite = "?";  // no-appendfsync-on-rewrite

  // Each write is on its disk before it is answered. What is not known is taken for no.
  bool KeepsAll() const;
};

// The command that asks for AppendSettings, and what its answer says.
std::string AskAppendSettings();
AppendSettings ReadAppendSettings(const redisReply& reply);

// `save_points`: the reply to CONFIG GET save, or "?" when the user may not ask.
// `of_cluster`: it is to be a node of a Cluster; else it must not be one.
Fitness JudgeFitness(const ServerInfo& info, std::string_view save_points, bool of_cluster = false,
                     const AppendSettings& appends = {});

}  // namespace distlock::store
