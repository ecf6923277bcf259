// SPDX-License-Identifier: Apache-2.0
//
// Every bound on what a caller may ask of this broker, and the refusal that each one causes. Main fills them from the
// options; constant afterwards, but for the longest ttl. The defaults are those of the comments in proto/.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/limits.h"
#include "core/types.h"
#include "distlock/wire/limits.h"

namespace distlock::contract {

struct Limits {
  // INVALID_ARGUMENT
  core::Duration default_ttl = std::chrono::seconds(15);
  core::Duration min_ttl = std::chrono::seconds(1);
  core::Duration max_ttl = std::chrono::hours(1);
  // Set by another thread once the store's server has turned out to be replicated: then this bounds the ttl as well,
  // since nobody is newly granted a lock for so long after a failover. Null: it never counts.
  std::shared_ptr<const std::atomic<bool>> store_is_replicated;
  core::Duration max_ttl_if_replicated = std::chrono::seconds(30);
  core::Duration max_wait = std::chrono::hours(24);
  core::Duration max_lock_delay = std::chrono::seconds(60);
  core::Duration max_min_hold = std::chrono::hours(25);
  size_t max_key_bytes = 512;
  size_t max_namespace_bytes = 64;
  size_t max_owner_bytes = 256;
  size_t max_metadata_bytes = 1024;

  // QUOTA_EXCEEDED
  size_t max_leases_per_session = 10'000;
  size_t max_sessions = 10'000;
  size_t max_sessions_per_peer = 1'000;
  size_t max_watched_locks = 1'000;  // of one WatchLocks
  size_t max_prefix_watches = 32;    // WatchLocks streams, each of which lists locks again and again
  size_t outbox_messages = 256;      // unwritten events of one session, in units of kOutboxEventsPerMessage
  // Memory of unwritten events. A session that has its share of what a peer may have is not read. One that has more
  // than the least while its peer, or all together, have too much is ended.
  size_t outbox_bytes_per_peer = size_t{32} << 20;
  size_t outbox_bytes = size_t{512} << 20;
  // Commands of one session: all but Open, Heartbeat and Goodbye count. Acquires beyond the limit are refused; Release,
  // Cancel, Downgrade and Authenticate are carried out all the same. Calls of one peer: every Acquire counts. 0 = no
  // limit.
  uint32_t requests_per_second = 0;

  // Commands that wait for the shards; a session that has so many there is not read. A peer's sessions share what it
  // may have.
  size_t max_unhandled_per_session = 4096;
  size_t max_unhandled_per_peer = 8192;

  // Acquire calls that are not answered yet.
  size_t max_waiting_calls = 20'000;
  size_t max_waiting_calls_per_peer = 1'000;

  // How long a client may believe after a heartbeat.
  core::Duration validity = std::chrono::seconds(3);
  // How long a Session may take to send Open. INVALID_ARGUMENT
  core::Duration open_timeout = std::chrono::seconds(10);
  // For a request message. gRPC refuses a larger one.
  size_t max_message_bytes = wire::kMostMessageBytes;
  // The store can keep semaphores.
  bool has_permits = true;
  // How long GetLock and ListLocks wait for the store.
  core::Duration store_timeout = std::chrono::seconds(5);

  // The longest ttl now, and the one of a request that names none.
  core::Duration LongestTtl() const {
    const bool is_replicated = store_is_replicated != nullptr && store_is_replicated->load();
    return is_replicated ? std::min(max_ttl, max_ttl_if_replicated) : max_ttl;
  }
  core::Duration UsualTtl() const { return std::min(default_ttl, LongestTtl()); }
};

// The longest max_hold: ten years, as good as none.
inline constexpr core::Duration kMaxHoldBound = std::chrono::hours(24 * 3650);
inline constexpr size_t kMinRequestIdBytes = 16;
inline constexpr size_t kMaxRequestIdBytes = 64;
// As the namespace of ListLocks; no lock may be in it.
inline constexpr std::string_view kAllNamespaces = "-";
// For a request that lists or watches: nullopt for all.
inline std::optional<std::string_view> NamespaceOf(std::string_view ns) {
  return ns == kAllNamespaces ? std::nullopt : std::optional(ns);
}
inline constexpr uint32_t kDefaultPage = 100;
inline constexpr uint32_t kMaxPage = 1000;
// The core includes nothing of the contract, and has a number of its own.
static_assert(core::kMaxTogether == wire::kMostLocksTogether);

}  // namespace distlock::contract
