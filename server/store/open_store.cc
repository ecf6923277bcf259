// SPDX-License-Identifier: Apache-2.0
#include "store/open_store.h"

#include <utility>

#include "store/redis/tls.h"
#include "store/single/single_store.h"
#include "store/text.h"

namespace distlock::store {

std::unique_ptr<Store> OpenStore(uv_loop_t* loop, StoreOptions options) {
  switch (options.url.topology) {
    case StoreUrl::Topology::kSingle:
      return std::make_unique<SingleStore>(loop, std::move(options));
  }
  return nullptr;
}

absl::StatusOr<std::vector<std::string>> CheckStore(StoreOptions options, core::Duration timeout, CheckWatch watch) {
  if (options.url.transport == StoreUrl::Transport::kTls) {
    if (auto tls = NewTls(options.url); !tls.ok()) {
      return absl::Status(tls.status().code(), Cat(options.url.Masked(), ": ", tls.status().message()));
    }
  }
  return CheckStore(OpenStore, std::move(options), timeout, std::move(watch));
}

}  // namespace distlock::store
