// SPDX-License-Identifier: Apache-2.0
//
// The pages of the HTTP port. They work from the start: a daemon that waits for its store is alive and not ready. The
// handlers run on the port's threads; everything that they refer to outlives them.
#pragma once

#include <atomic>

#include "main/metrics.h"
#include "ops/http.h"
#include "rpc/server.h"
#include "shard/shard_set.h"

namespace distlock {

class HttpPages {
 public:
  // `shows_locks`: whether the status page lists held locks, with their owners.
  HttpPages(Metrics& metrics, bool shows_locks) : metrics_(metrics), shows_locks_(shows_locks) {}
  HttpPages(const HttpPages&) = delete;
  HttpPages& operator=(const HttpPages&) = delete;

  ops::HttpHandlers Handlers();
  // The server and its shards, which exist once the store was found.
  struct Serving {
    const rpc::Server& server;
    shard::ShardSet& shards;
  };
  // Call once. `serving` must outlive the handlers.
  void Show(const Serving* serving) { serving_.store(serving, std::memory_order_release); }

 private:
  const Serving* serving() const { return serving_.load(std::memory_order_acquire); }

  Metrics& metrics_;
  const bool shows_locks_;
  std::atomic<const Serving*> serving_ = nullptr;
};

}  // namespace distlock
