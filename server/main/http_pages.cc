// SPDX-License-Identifier: Apache-2.0
#include "main/http_pages.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "contract/show.h"
#include "contract/to_proto.h"

namespace distlock {
namespace {

constexpr uint32_t kLocksShown = 100;
constexpr core::Duration kListTimeout = std::chrono::seconds(1);
// As in the proto, "" means the namespace `default`. ListLocks shows the others.
constexpr char kNamespaceShown[] = "default";

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

ops::PageSection BrokerSection(const v1::GetStatusResponse& status) {
  const absl::Duration uptime = absl::Seconds(status.uptime().seconds());
  const bool up = status.store_state() == v1::STORE_STATE_UP;
  return {.title = "Broker",
          .columns = {},
          .rows = {{"version", status.version()},
                   {"broker_id", status.broker_id()},
                   {"uptime", absl::FormatDuration(uptime)},
                   {"listen", absl::StrJoin(status.listen_addresses(), ", ")},
                   {"store", absl::StrCat(status.store_url(),
                                          up ? " (up)" : " (down: ", up ? "" : status.store_problem(), up ? "" : ")")},
                   {"draining", status.draining() ? "yes" : "no"},
                   {"streams", absl::StrCat(status.sessions())},
                   {"leases", absl::StrCat(status.leases())},
                   {"waiters", absl::StrCat(status.waiters())},
                   {"shards", absl::StrCat(status.shards())}}};
}

ops::PageSection LockSection(shard::ShardSet& shards) {
  // Shared, because the answer may come after this function has given up waiting.
  auto answer = std::make_shared<std::promise<absl::StatusOr<store::LockPage>>>();
  auto listed = answer->get_future();
  shards.List(core::EscapeNamespace(kNamespaceShown), "", kLocksShown, "", kListTimeout,
              [answer](absl::StatusOr<store::LockPage> page) { answer->set_value(std::move(page)); });
  ops::PageSection section{.title = absl::StrCat("Held locks of namespace ", kNamespaceShown),
                           .columns = {"key", "owner", "holder", "token", "time left", "waiting"},
                           .rows = {}};
  if (listed.wait_for(2 * kListTimeout) != std::future_status::ready) return section;
  const auto page = listed.get();
  if (!page.ok()) {
    section.rows.push_back({std::string(page.status().message()), "", "", "", "", ""});
    return section;
  }
  for (const store::LockView& view : page->locks) {
    const v1::LockInfo lock = contract::LockOf(view);
    if (lock.holders_size() == 0 && !lock.has_block()) continue;
    const bool is_held = lock.holders_size() > 0;
    const v1::Holder& holder = is_held ? lock.holders(0) : v1::Holder::default_instance();
    const std::string more = lock.holder_count() > 1 ? absl::StrCat(" and ", lock.holder_count() - 1, " more") : "";
    section.rows.push_back({lock.key(), is_held ? absl::StrCat(holder.owner(), more) : lock.block().owner(),
                            is_held ? holder.holder_id() : "lock_delay", absl::StrCat(lock.fencing_token()),
                            contract::Show(view.holders[0].time_left), absl::StrCat(lock.queue_length())});
  }
  return section;
}

// The page has no log-in, and owners and keys may be nobody else's business.
ops::PageSection NoLocksSection() {
  return {
      .title = "Held locks",
      .columns = {},
      .rows = {{"not shown", "--http is not loopback; --http-page on shows them to everybody who reaches this page"}}};
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
              [this] {
                const Serving* at = serving();
                using Sections = std::vector<ops::PageSection>;
                if (at == nullptr)
                  return Sections{{.title = "Broker", .columns = {}, .rows = {{"store", "not reached yet"}}}};
                Sections sections{BrokerSection(at->server.Status())};
                // Whoever opens the page has proven nothing.
                if (at->server.MayEverybodyList(kNamespaceShown)) {
                  sections.push_back(shows_locks_ ? LockSection(at->shards) : NoLocksSection());
                }
                return sections;
              }};
}

}  // namespace distlock
