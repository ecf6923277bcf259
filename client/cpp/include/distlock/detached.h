// SPDX-License-Identifier: Apache-2.0
//
// DetachedLocks: locks that belong to no stream and to no process, so that one program can take a lock and another can
// give it back. Nobody renews them: the holder does, or lets the ttl end. Whoever knows the lease_id is the holder:
// keep it secret. Prefer Mutex and its like where one process holds the lock.
//
// Bound to a client; copies are cheap and equal. Thread-safe. May outlive its Client; calls are then refused with
// kClientClosed. Each call blocks its thread; refused with kWouldDeadlock in a callback of the library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "distlock/types.h"

namespace distlock {

class Client;

namespace internal {
class Core;
}

// A lock that was taken. A value: dropping it gives nothing back.
struct DetachedLease {
  std::string lease_id;   // secret
  std::string holder_id;  // public
  int64_t token = 0;
  Duration ttl{0};
  Duration waited{0};
  int64_t valid_until = 0;  // CLOCK_BOOTTIME nanoseconds: nobody may rely on the lock after it

  Duration time_left() const;  // until valid_until; 0 when it has passed
};

// How a detached lock is to be held: `permits` and `limit` are of kPermit only.
struct DetachedMode {
  LockMode mode = LockMode::kExclusive;
  int32_t permits = 0;
  int32_t limit = 0;
};

class DetachedLocks {
 public:
  explicit DetachedLocks(Client& client);

  // Looks for a broker for ClientOptions::unreachable_timeout at most (zero: 1 s for one try, else 10 s or max_wait,
  // whichever is longer), then waits for options.max_wait; unset waits until granted. When the connection breaks it
  // asks again under the same request_id, which gets the same grant, if a broker answers within unreachable_timeout.
  // `request_id`: 16..64 bytes, random and secret; "" makes one. `cancel` withdraws the wait (kCancelled): a grant that
  // was on its way lasts for its ttl. kUnreachable: whether it was granted is not known.
  Result<DetachedLease> Acquire(const std::string& key, const LockOptions& options = {}, DetachedMode mode = {},
                                const std::string& request_id = "", std::stop_token cancel = {});

  // Starts the ttl anew, and says until when the lock may be relied on. kNotHolder: the lock has ended. kUnreachable:
  // whether it was renewed is not known; the former valid_until stands.
  struct Renewal {
    Duration ttl{0};
    int64_t valid_until = 0;
  };
  Result<Renewal> Renew(const std::string& lease_id);

  // kUnreachable: whether it was given back is not known; asking again is harmless.
  Result<ReleaseOutcome> Release(const std::string& lease_id);

  // Makes an exclusive lock a shared one; nothing on success. Asking again is harmless.
  std::optional<Refusal> Downgrade(const std::string& lease_id);

 private:
  std::shared_ptr<internal::Core> core_;
};

}  // namespace distlock
