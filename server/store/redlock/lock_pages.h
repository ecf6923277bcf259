// SPDX-License-Identifier: Apache-2.0
//
// Queries about locks of several servers: asks each of them, and merges what they show. A page of locks is made of the
// locks that one server knows, the servers in turn; each lock is shown as most servers see it, and once, unless a
// server has got it since it was listed.
//
// Thread: the loop's. Each callback runs exactly once, at the latest in Stop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/redis/server_node.h"
#include "store/store.h"

namespace distlock::store {

class LockPages {
 public:
  using Servers = std::vector<ServerNode*>;
  struct Wanted {
    std::string escaped_namespace;
    std::string escaped_key_prefix;
    uint32_t page_size = 0;
  };

  explicit LockPages(std::shared_ptr<Timers> timers) : timers_(std::move(timers)) {}

  // As of Store.
  void Inspect(const Servers& servers, const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done);
  void List(const Servers& servers, Wanted wanted, const std::string& page_token, core::Duration timeout,
            std::function<void(absl::StatusOr<LockPage>)> done);
  // Whatever is still asked is answered as Cancelled.
  void Stop();

 private:
  using Views = std::vector<std::optional<LockView>>;  // by server
  using Seen = std::function<void(absl::StatusOr<Views>)>;
  struct Query {
    Views views;
    size_t servers = 0;
    size_t waiting = 0;
    absl::Status trouble;
    Seen done;
    std::unique_ptr<Timer> patience;
  };
  struct Listing;

  void Ask(const Servers& servers, const core::LockName& name, uint32_t max_waiters, core::Duration timeout, Seen done);
  void OnView(uint64_t id, size_t server, absl::StatusOr<LockView> view);
  void Finish(uint64_t id);
  void ListFrom(const std::shared_ptr<Listing>& listing);
  void OnPage(const std::shared_ptr<Listing>& listing, absl::StatusOr<LockPage> page);
  void OnListed(const std::shared_ptr<Listing>& listing, size_t at, absl::StatusOr<Views> views);

  const std::shared_ptr<Timers> timers_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Query> queries_;
};

}  // namespace distlock::store
