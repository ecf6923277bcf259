// SPDX-License-Identifier: Apache-2.0
//
// The daemon's drain, begun by a signal or by AdminService.Drain. Health becomes NOT_SERVING, new work is refused,
// every stream gets Draining, holders may finish, and leases that are left at the deadline are released.
//
// Thread: Begin on any; the rest on main's. The constructor's arguments outlive it; it outlives the server.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "main/metrics.h"
#include "main/supervisor.h"
#include "main/wakeups.h"
#include "rpc/server.h"
#include "shard/shard_set.h"
#include "store/embedded/embedded_server.h"

namespace distlock {

class Drainer {
 public:
  Drainer(shard::ShardSet& shards, Metrics& metrics, const Supervisor& supervisor, Wakeups& wakeups,
          core::Duration timeout)
      : shards_(shards), metrics_(metrics), supervisor_(supervisor), wakeups_(wakeups), timeout_(timeout) {}

  // Names the server to drain. If a drain has begun already, the server drains at once.
  void Attach(rpc::Server* server);
  // `begun` is called when the drain begins, and again when it is shortened; on any thread, and it must not block.
  void OnBegin(std::function<void()> begun);

  // Begins the drain and returns the time left. A second call can only shorten it.
  core::Duration Begin(std::optional<core::Duration> timeout);

  // Serves the main thread's wakeups until the drain is complete. SIGTERM begins the drain or joins it; a second
  // SIGTERM ends the process at once. Returns an error when `embedded`, which may be null, has ended by itself. Calls
  // `on_wake` after each wakeup, and at least twice a second.
  absl::Status AwaitEnd(store::EmbeddedServer* embedded, const std::function<void(Wake)>& on_wake);

 private:
  bool done() const;

  shard::ShardSet& shards_;
  Metrics& metrics_;
  const Supervisor& supervisor_;
  Wakeups& wakeups_;
  const core::Duration timeout_;  // for Begin without a timeout

  // Guarded by mu_.
  mutable std::mutex mu_;
  rpc::Server* server_ = nullptr;
  std::function<void()> begun_;
  std::optional<core::Instant> deadline_;
  bool done_ = false;
};

}  // namespace distlock
