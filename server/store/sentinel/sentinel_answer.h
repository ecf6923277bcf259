// SPDX-License-Identifier: Apache-2.0
//
// Reads a sentinel's replies. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/types.h"
#include "store/redis/resp.h"
#include "store/sentinel/sentinel_view.h"
#include "store/store_url.h"

namespace distlock::store {

struct ReplicaFacts {
  ServerAddress address;
  int priority = 100;     // for a promotion: the lowest goes first, 0 never
  ServerAddress follows;  // its own primary
  bool up = true;         // as this sentinel sees it
};

// The primary and its replicas, as one sentinel sees them.
struct SetFacts {
  int replica_count = 0;
  int quorum = 0;  // of sentinels that must take the primary for dead
  core::Duration down_after{};
  bool failing_over = false;
  std::optional<std::vector<ReplicaFacts>> replicas;  // unset: not asked, or denied
};

// The answer to SENTINEL MASTER: the epoch and the facts. False: an unknown shape.
bool ReadMaster(const redisReply& reply, SentinelReport& report, SetFacts& facts);
// The answer to SENTINEL GET-MASTER-ADDR-BY-NAME.
std::optional<ServerAddress> ReadAddress(const redisReply& reply);
// For SENTINEL SENTINELS, SENTINEL REPLICAS and SENTINEL MASTERS; an unknown shape is left out.
std::vector<ServerAddress> ReadPeers(const redisReply& reply);
std::vector<ReplicaFacts> ReadReplicas(const redisReply& reply);
std::vector<std::string> ReadNames(const redisReply& reply);

}  // namespace distlock::store
