// SPDX-License-Identifier: Apache-2.0
//
// The blocking and non-blocking waits that Mutex, RwLock, Semaphore and Election share: takes one lock, as its Spec
// says. Thread-safe. The references must outlive the Acquirer; an acquire that it has started goes on without it.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "core.h"
#include "distlock/pending_lock.h"

namespace distlock::internal {

class Acquirer {
 public:
  Acquirer(const std::shared_ptr<Core>& core, const std::shared_ptr<const Spec>& spec) : core_(core), spec_(spec) {}

  // Mutex::Lock, TryLock, TryLockFor and LockAsync say what these promise.
  Result<Guard> Acquire(const std::stop_token& cancel) const { return Wait(spec_->max_wait, cancel); }
  Result<Guard> TryAcquire() const { return Wait(Duration::zero(), {}); }
  Result<Guard> TryAcquireFor(Duration max_wait, const std::stop_token& cancel) const { return Wait(max_wait, cancel); }
  PendingLock AcquireAsync(LockCallback callback) const { return Start(spec_->max_wait, std::move(callback)); }
  PendingLock TryAcquireAsync(LockCallback callback) const { return Start(Duration::zero(), std::move(callback)); }
  PendingLock TryAcquireForAsync(Duration max_wait, LockCallback callback) const {
    return Start(max_wait, std::move(callback));
  }

 private:
  Result<Guard> Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const;
  PendingLock Start(std::optional<Duration> max_wait, LockCallback callback) const;
  static Result<Guard> GuardOf(const std::shared_ptr<Core>& core, Result<Leases> answer);

  const std::shared_ptr<Core>& core_;
  const std::shared_ptr<const Spec>& spec_;
};

// The answer to a blocking call on a thread of the library, where the wait would block the thread that has to end it.
inline Refusal WouldDeadlock() {
  return {.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; use the Async form"};
}

inline Refusal CancelledBefore() {
  return {.reason = RefusalReason::kCancelled, .message = "cancelled before it was asked for"};
}

}  // namespace distlock::internal
