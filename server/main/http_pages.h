// SPDX-License-Identifier: Apache-2.0
//
// What the HTTP port shows. The handlers run on its threads; everything they refer to outlives them.
#pragma once

#include "ops/http.h"
#include "ops/metrics.h"
#include "rpc/server.h"
#include "shard/shard_set.h"

namespace distlock {

ops::HttpHandlers HttpPages(ops::Metrics& metrics, const rpc::Server& server, shard::ShardSet& shards);

}  // namespace distlock
