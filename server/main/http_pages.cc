// SPDX-License-Identifier: Apache-2.0
#include "main/http_pages.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "main/page.h"

namespace distlock {
namespace {

std::string Metrics(ops::Metrics& metrics, const rpc::Server& server, const shard::ShardSet& shards) {
  const v1::GetStatusResponse status = server.Status();
  metrics.sessions.Set(static_cast<double>(status.sessions()));
  metrics.connections.Set(static_cast<double>(server.connections()));
  metrics.leases.Set(static_cast<double>(status.leases()));
  metrics.waiters.Set(static_cast<double>(status.waiters()));
  size_t mail = 0;
  for (const shard::ShardStatus& shard : shards.Status()) mail += shard.mailbox_depth;
  metrics.mailbox_depth.Set(static_cast<double>(mail));
  return metrics.Text();
}

std::string NotReady(const rpc::Server& server) {
  const v1::GetStatusResponse status = server.Status();
  if (status.draining()) return "draining";
  if (status.store_state() != v1::STORE_STATE_UP) return absl::StrCat("store down: ", status.store_problem());
  return "";
}

}  // namespace

ops::HttpHandlers HttpPages::Handlers() {
  return {.metrics =
              [this] {
                const Serving* at = serving();
                return at == nullptr ? metrics_.Text() : Metrics(metrics_, at->server, at->shards);
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
          .page =
              [this](const std::string& query) {
                const Serving* at = serving();
                if (at == nullptr) return std::string(R"({"problem":"waiting for the store"})") + "\n";
                return PageJson({metrics_, at->server, at->shards, shows_locks_, NotReady(at->server)}, query);
              }};
}

}  // namespace distlock
