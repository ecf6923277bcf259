// SPDX-License-Identifier: Apache-2.0
//
// Every bound on what a caller may ask of this broker, and the refusal each one causes. Values, filled by main from the
// options and constant afterwards. The defaults are those of the contract's comments.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace distlock::contract {

struct Limits {
  // INVALID_ARGUMENT
  core::Duration default_ttl = std::chrono::seconds(15);
  core::Duration min_ttl = std::chrono::seconds(1);
  core::Duration max_ttl = std::chrono::hours(1);
  core::Duration max_wait = std::chrono::hours(24);
  core::Duration max_lock_delay = std::chrono::seconds(60);
  size_t max_key_bytes = 512;
  size_t max_namespace_bytes = 64;
  size_t max_owner_bytes = 256;
  size_t max_metadata_bytes = 1024;

  // QUOTA_EXCEEDED
  size_t max_leases_per_session = 10'000;
  size_t max_sessions = 10'000;
  size_t max_sessions_per_peer = 1'000;
  size_t outbox_messages = 256;  // of kOutboxEventsPerMessage events each, not handed to gRPC yet
  // Of one session: every command but Open, Heartbeat and Goodbye counts. What gives up or gives back is carried out all
  // the same; acquires beyond it are refused. 0 = no limit.
  uint32_t requests_per_second = 0;

  // What a session is told of time.
  core::Duration validity = std::chrono::seconds(3);
  // How long a Session may take to send Open. INVALID_ARGUMENT
  core::Duration open_timeout = std::chrono::seconds(10);
  // How long GetLock and ListLocks wait for the store.
  core::Duration store_timeout = std::chrono::seconds(5);
};

// A longer max_hold could not be told from none at all.
inline constexpr core::Duration kMaxHoldBound = std::chrono::hours(24 * 3650);
inline constexpr size_t kMinRequestIdBytes = 16;
inline constexpr size_t kMaxRequestIdBytes = 64;
inline constexpr uint32_t kDefaultPage = 100;
inline constexpr uint32_t kMaxPage = 1000;

}  // namespace distlock::contract
