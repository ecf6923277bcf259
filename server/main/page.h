// SPDX-License-Identifier: Apache-2.0
//
// The status page's answer of each second, as JSON for server/ops/page/page.js:
//   {problem, status, counters, hidden, list, lock}
// `status`, `list` and `lock` are messages of the contract. Locks are left out when whoever has proven nothing may not
// list them; `hidden` says why.
#pragma once

#include <string>
#include <string_view>

#include "main/metrics.h"
#include "rpc/server.h"
#include "shard/shard_set.h"

namespace distlock {

struct PageSource {
  const Metrics& metrics;
  const rpc::Server& server;
  shard::ShardSet& shards;
  bool shows_locks;
  std::string problem;  // why the broker is not ready; "": it is
};

// `query`: namespace ("-": all), prefix and page of the list; lock and lockNamespace of one lock. Waits for the store,
// for a second at most, and for the same time again if one lock is asked for.
std::string PageJson(const PageSource& source, std::string_view query);

}  // namespace distlock
