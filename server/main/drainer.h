// SPDX-License-Identifier: Apache-2.0
//
// One drain, whoever asks for it first: NOT_SERVING, no new work, every stream told, holders awaited, the rest
// released. Thread: Begin on any; the rest on main's. `shards` and `wakeups` outlive it; it outlives the server.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "main/wakeups.h"
#include "ops/metrics.h"
#include "rpc/server.h"
#include "shard/shard_set.h"
#include "store/embedded/embedded_server.h"

namespace distlock {

class Drainer {
 public:
  Drainer(shard::ShardSet& shards, ops::Metrics& metrics, Wakeups& wakeups, core::Duration timeout)
      : shards_(shards), metrics_(metrics), wakeups_(wakeups), timeout_(timeout) {}

  // The server that goes NOT_SERVING; a drain asked for before that counts.
  void Attach(rpc::Server* server);

  // Returns the time left. Asking again can only shorten it.
  core::Duration Begin(std::optional<core::Duration> timeout);

  // Serves the main thread's wakeups: SIGTERM begins the drain or joins the one that was asked for, a second one ends the
  // process at once. Returns when the drain is complete, or with an error when the embedded store, if there is one, has
  // ended by itself. Calls `each_second` about that often meanwhile.
  absl::Status AwaitEnd(store::EmbeddedServer* embedded, const std::function<void()>& each_second);

 private:
  bool done() const;

  shard::ShardSet& shards_;
  ops::Metrics& metrics_;
  Wakeups& wakeups_;
  const core::Duration timeout_;  // unless the request says otherwise

  // Guarded by mu_.
  mutable std::mutex mu_;
  rpc::Server* server_ = nullptr;
  std::optional<core::Instant> deadline_;
  bool done_ = false;
};

}  // namespace distlock
