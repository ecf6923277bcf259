// SPDX-License-Identifier: Apache-2.0
//
// PendingLock: an acquire on its way. And what Mutex, RwLock and Semaphore are made of: an Acquirer is one way of
// taking one lock, bound to a client, and offers the waits. Thread-safe; copies are cheap and equal.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>

#include "distlock/guard.h"
#include "distlock/types.h"

namespace distlock {

class MultiLock;

namespace internal {
class Acquirer;
struct Spec;
}  // namespace internal

// An acquire on its way. Dropping the handle changes nothing.
class PendingLock {
 public:
  PendingLock() = default;
  // Withdraws the acquire. Its callback is still called exactly once: with kCancelled, or with what came first.
  void Cancel();

 private:
  friend class MultiLock;
  friend class internal::Acquirer;
  PendingLock(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::Lease> lease);

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::Lease> lease_;
};

namespace internal {

class Acquirer {
 public:
  Acquirer(std::shared_ptr<Core> core, std::shared_ptr<const Spec> spec);

  // The same lock with another number of permits.
  Acquirer WithPermits(uint32_t permits) const;

  // What these promise is said at Mutex::Lock, TryLock, TryLockFor and LockAsync.
  Result<Guard> Acquire(const std::stop_token& cancel) const;
  Result<Guard> TryAcquire() const;
  Result<Guard> TryAcquireFor(Duration max_wait, const std::stop_token& cancel) const;
  PendingLock AcquireAsync(LockCallback callback) const;
  PendingLock TryAcquireAsync(LockCallback callback) const;
  PendingLock TryAcquireForAsync(Duration max_wait, LockCallback callback) const;

 private:
  Result<Guard> Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const;
  PendingLock Start(std::optional<Duration> max_wait, LockCallback callback) const;

  std::shared_ptr<Core> core_;
  std::shared_ptr<const Spec> spec_;
};

}  // namespace internal
}  // namespace distlock
