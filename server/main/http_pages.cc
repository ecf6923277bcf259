// SPDX-License-Identifier: Apache-2.0
#include "main/http_pages.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "main/page.h"
#include "shard/boot_clock.h"

namespace distlock {
namespace {

// The greatest of all shards; `index`: of the namespace, nullopt for all of them.
void SetLoad(const std::vector<shard::ShardStatus>& shards, std::optional<size_t> index, Gauge& oldest,
             Gauge& longest) {
  core::Instant granted = core::kNever;
  size_t queue = 0;
  for (const shard::ShardStatus& shard : shards) {
    if (index && *index >= shard.load.of_namespace.size()) continue;  // not looked at yet
    const core::BrokerLoad::Part& part = index ? shard.load.of_namespace[*index] : shard.load.all;
    // The counts are newer than the load.
    if (shard.stats.leases > 0) granted = std::min(granted, part.oldest_grant);
    if (shard.stats.waiters > 0) queue = std::max(queue, part.longest_queue);
  }
  const core::Duration age = granted == core::kNever ? core::Duration::zero() : shard::BootNow() - granted;
  oldest.Set(std::chrono::duration<double>(age).count());
  longest.Set(static_cast<double>(queue));
}

std::string Scraped(Metrics& metrics, const rpc::Server& server, const shard::ShardSet& shards) {
  const v1::GetStatusResponse status = server.Status();
  metrics.sessions.Set(static_cast<double>(status.sessions()));
  metrics.connections.Set(static_cast<double>(server.connections()));
  metrics.unwritten_bytes.Set(static_cast<double>(server.unwritten_bytes()));
  metrics.leases.Set(static_cast<double>(status.leases()));
  metrics.waiters.Set(static_cast<double>(status.waiters()));
  size_t mail = 0;
  const std::vector<shard::ShardStatus> all = shards.Status();
  for (const shard::ShardStatus& shard : all) mail += shard.mailbox_depth;
  metrics.mailbox_depth.Set(static_cast<double>(mail));
  SetLoad(all, std::nullopt, metrics.oldest_hold_seconds, metrics.longest_queue);
  for (size_t i = 0; i < metrics.of_namespace.size(); ++i) {
    SetLoad(all, i, *metrics.of_namespace[i].oldest_hold_seconds, *metrics.of_namespace[i].longest_queue);
  }
  return metrics.Text();
}

std::string NotReady(const rpc::Server& server) {
  const v1::GetStatusResponse status = server.Status();
  if (status.draining()) return "draining";
  if (status.store_state() != v1::STORE_STATE_UP) return absl::StrCat("store down: ", status.store_problem());
  return "";
}

// Why nobody would be granted a lock that is free.
std::string NotGranting(const rpc::Server& server) {
  const v1::GetStatusResponse status = server.Status();
  if (!status.store_refusal().empty()) return absl::StrCat("the store takes no writes: ", status.store_refusal());
  int counting = 0;
  int held_off = 0;
  bool independent = false;
  for (const v1::StoreNode& node : status.store_nodes()) {
    independent |= node.independent();
    counting += node.state() == v1::STORE_NODE_STATE_UP && node.not_counted().empty() ? 1 : 0;
    held_off += node.state() == v1::STORE_NODE_STATE_HELD_OFF ? 1 : 0;
  }
  if (held_off == 0 || (independent && counting > status.store_nodes_size() / 2)) return "";
  return "hold-off: the store may have forgotten holders, and nobody is newly granted a lock until it is over";
}

}  // namespace

ops::HttpHandlers HttpPages::Handlers() {
  return {.metrics =
              [this] {
                const Serving* at = serving();
                return at == nullptr ? metrics_.Text() : Scraped(metrics_, at->server, at->shards);
              },
          .not_alive =
              [this] {
                const Serving* at = serving();
                const std::string dead = at == nullptr ? "" : at->server.DeadListener();
                return dead.empty() ? "" : absl::StrCat("no connection was accepted for 15 s on ", dead);
              },
          .not_ready =
              [this] {
                const Serving* at = serving();
                return at == nullptr ? std::string("waiting for the store") : NotReady(at->server);
              },
          .not_granting =
              [this] {
                const Serving* at = serving();
                return at == nullptr ? std::string() : NotGranting(at->server);
              },
          .page =
              [this](const std::string& query) {
                const Serving* at = serving();
                if (at == nullptr) return std::string(R"({"problem":"waiting for the store"})") + "\n";
                return PageJson({metrics_, at->server, at->shards, shows_locks_, NotReady(at->server)}, query);
              }};
}

}  // namespace distlock
