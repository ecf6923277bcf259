// SPDX-License-Identifier: Apache-2.0
#include "store/open_store.h"

#include <optional>
#include <utility>

#include "store/redis/socket_dialer.h"
#include "store/redis/tls.h"
#include "store/redis/uv_timers.h"
#include "store/single/single_store.h"
#include "store/text.h"

namespace distlock::store {
namespace {

Network SocketNetwork(uv_loop_t* loop, const StoreUrl& url) {
  const bool tls = url.transport == StoreUrl::Transport::kTls;
  return {.dialer = std::make_shared<SocketDialer>(loop, tls ? std::optional(url.tls) : std::nullopt),
          .timers = std::make_shared<UvTimers>(loop)};
}

}  // namespace

core::StoreTraits TraitsOf(const StoreUrl& url) {
  switch (url.topology) {
    case StoreUrl::Topology::kSingle:
      return SingleStore::kTraits;
  }
  return {};
}

std::unique_ptr<Store> OpenStore(uv_loop_t* loop, const StoreOptions& options) {
  switch (options.url.topology) {
    case StoreUrl::Topology::kSingle:
      return std::make_unique<SingleStore>(SocketNetwork(loop, options.url), options);
  }
  return nullptr;
}

absl::StatusOr<std::vector<std::string>> CheckStore(StoreOptions options, core::Duration timeout, CheckWatch watch) {
  if (options.url.transport == StoreUrl::Transport::kTls) {
    if (auto tls = NewTls(options.url.tls, options.url.address.host); !tls.ok()) {
      return absl::Status(tls.status().code(), Cat(options.url.Masked(), ": ", tls.status().message()));
    }
  }
  return CheckStore(OpenStore, std::move(options), timeout, std::move(watch));
}

}  // namespace distlock::store
