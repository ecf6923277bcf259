// SPDX-License-Identifier: Apache-2.0
#include "store/open_store.h"

#include <optional>
#include <utility>

#include "store/cluster/cluster_store.h"
#include "store/redis/socket_dialer.h"
#include "store/redis/tls.h"
#include "store/redis/uv_timers.h"
#include "store/redlock/redlock_store.h"
#include "store/sentinel/sentinel_store.h"
#include "store/single/single_store.h"
#include "store/text.h"
#include "store/waiting_store.h"

namespace distlock::store {
namespace {

using Topology = StoreUrl::Topology;

std::optional<TlsFiles> StoreTls(const StoreUrl& url) {
  return url.transport == StoreUrl::Transport::kTls ? std::optional(url.tls) : std::nullopt;
}

std::optional<TlsFiles> SentinelTls(const StoreUrl& url) {
  return url.sentinel_tls ? std::optional(url.sentinel_tls_files) : std::nullopt;
}

Network SocketNetwork(uv_loop_t* loop, const std::optional<TlsFiles>& tls) {
  return {.dialer = std::make_shared<SocketDialer>(loop, tls), .timers = std::make_shared<UvTimers>(loop)};
}

absl::Status CheckTls(const std::optional<TlsFiles>& files, const StoreUrl& url, std::string_view whose) {
  if (!files) return absl::OkStatus();
  const auto tls = NewTls(*files, url.address.host);
  return absl::Status(tls.status().code(), Cat(url.Masked(), ": ", whose, tls.status().message()));
}

}  // namespace

core::StoreTraits TraitsOf(const StoreOptions& options) {
  core::StoreTraits traits = SingleStore::kTraits;
  if (options.url.topology == Topology::kSentinel) traits = SentinelStore::kTraits;
  if (options.url.topology == Topology::kCluster) traits = ClusterStore::kTraits;
  if (options.url.topology == Topology::kQuorum) traits = RedlockStore::kTraits;
  traits.replicas = static_cast<uint32_t>(options.wait_replicas);
  return traits;
}

std::unique_ptr<Store> OpenStore(uv_loop_t* loop, const StoreOptions& options) {
  switch (options.url.topology) {
    case Topology::kSingle:
      return std::make_unique<SingleStore>(SocketNetwork(loop, StoreTls(options.url)), options);
    case Topology::kSentinel:
      return std::make_unique<SentinelStore>(SocketNetwork(loop, StoreTls(options.url)),
                                             SocketNetwork(loop, SentinelTls(options.url)), options);
    case Topology::kCluster:
      return std::make_unique<ClusterStore>(SocketNetwork(loop, StoreTls(options.url)), options);
    case Topology::kQuorum:
      return std::make_unique<RedlockStore>(SocketNetwork(loop, StoreTls(options.url)), options);
  }
  return nullptr;
}

std::unique_ptr<Store> OpenStoreLater(uv_loop_t* loop, StoreOptions options, std::string why,
                                      std::function<bool()> may_open) {
  return std::make_unique<WaitingStore>(std::make_shared<UvTimers>(loop), std::move(why), std::move(may_open),
                                        [loop, options = std::move(options)] { return OpenStore(loop, options); });
}

absl::StatusOr<std::vector<std::string>> CheckStore(StoreOptions options, core::Duration timeout, CheckWatch watch) {
  if (auto status = CheckTls(StoreTls(options.url), options.url, ""); !status.ok()) return status;
  if (auto status = CheckTls(SentinelTls(options.url), options.url, "sentinels: "); !status.ok()) return status;
  return CheckStore(OpenStore, std::move(options), timeout, std::move(watch));
}

}  // namespace distlock::store
