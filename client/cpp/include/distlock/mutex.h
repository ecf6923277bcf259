// SPDX-License-Identifier: Apache-2.0
//
// Mutex: a lock with one holder at a time, named by (namespace, key). A Mutex is only a name and options bound to a
// client; copies are cheap and equal. Thread-safe: any number of acquires may run at once, and each gets a Guard of its
// own. Not recursive, except with LockOptions::reentrant. A Mutex may outlive its Client; acquires are then refused
// with kClientClosed.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "distlock/guard.h"
#include "distlock/pending_lock.h"
#include "distlock/types.h"

namespace distlock {

class Client;

class Mutex {
 public:
  Mutex(Client& client, std::string key, LockOptions options = {});

  // Waits until the lock is granted, or for options.max_wait. `cancel` withdraws the wait: the answer is then
  // kCancelled, and nothing is held.
  Result<Guard> Lock(std::stop_token cancel = {});

  // Tries once and never queues.
  Result<Guard> TryLock();

  // Waits at most this long. When the broker falls silent, it waits half a second longer for an answer that may be on
  // its way.
  Result<Guard> TryLockFor(Duration max_wait, std::stop_token cancel = {});

  // Waits until this time of any clock at most. A clock that is set meanwhile does not change the wait.
  template <class Clock, class D>
  Result<Guard> TryLockUntil(const std::chrono::time_point<Clock, D>& until, std::stop_token cancel = {}) {
    return TryLockFor(TimeUntil(until), std::move(cancel));
  }

  // The same three without blocking. `callback` is called exactly once, on a thread of the library (see client.h),
  // perhaps before this returns. It must neither block nor throw. It may start acquires and releases, which then leave
  // together.
  PendingLock LockAsync(LockCallback callback);
  PendingLock TryLockAsync(LockCallback callback);
  PendingLock TryLockForAsync(Duration max_wait, LockCallback callback);

 private:
  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<const internal::Spec> spec_;
};

}  // namespace distlock
