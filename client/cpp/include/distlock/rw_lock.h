// SPDX-License-Identifier: Apache-2.0
//
// RwLock: a lock with many readers or one writer at a time, named by (namespace, key). It is the same lock as a Mutex
// of that name, whose Lock is WriteLock here. An RwLock is only a name and options bound to a client; copies are cheap
// and equal. Thread-safe: any number of acquires may run at once, and each gets a Guard of its own with its own token.
// An RwLock may outlive its Client; acquires are then refused with kClientClosed.
//
// It is neither recursive nor upgradable. WriteLock while holding ReadLock waits for itself; so may a second ReadLock,
// when a writer waits in front of it. Guard::Downgrade makes a writer a reader without letting another writer in
// between.
//
// LockOptions::policy says who goes next. By default (kFair) readers and writers are served in the order of their
// arrival, and neighbouring readers enter together: neither side starves the other.
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

class RwLock {
 public:
  RwLock(Client& client, std::string key, LockOptions options = {});

  // For reading, beside other readers. Waits until the lock is granted, or for options.max_wait. `cancel` withdraws the
  // wait: the answer is then kCancelled, and nothing is held.
  Result<Guard> ReadLock(std::stop_token cancel = {});

  // Tries once and never queues, so it never keeps others waiting.
  Result<Guard> TryReadLock();

  // Waits at most this long. When the broker falls silent, it waits half a second longer for an answer that may be on
  // its way.
  Result<Guard> TryReadLockFor(Duration max_wait, std::stop_token cancel = {});

  // Waits until this time of any clock at most. A clock that is set meanwhile does not change the wait.
  template <class Clock, class D>
  Result<Guard> TryReadLockUntil(const std::chrono::time_point<Clock, D>& until, std::stop_token cancel = {}) {
    return TryReadLockFor(TimeUntil(until), std::move(cancel));
  }

  // For writing, alone. Otherwise as above.
  Result<Guard> WriteLock(std::stop_token cancel = {});
  Result<Guard> TryWriteLock();
  Result<Guard> TryWriteLockFor(Duration max_wait, std::stop_token cancel = {});
  template <class Clock, class D>
  Result<Guard> TryWriteLockUntil(const std::chrono::time_point<Clock, D>& until, std::stop_token cancel = {}) {
    return TryWriteLockFor(TimeUntil(until), std::move(cancel));
  }

  // The same without blocking. `callback` is called exactly once, on a thread of the library (see client.h), perhaps
  // before this returns. It must neither block nor throw. It may start acquires and releases, which then leave
  // together.
  PendingLock ReadLockAsync(LockCallback callback);
  PendingLock TryReadLockAsync(LockCallback callback);
  PendingLock TryReadLockForAsync(Duration max_wait, LockCallback callback);
  PendingLock WriteLockAsync(LockCallback callback);
  PendingLock TryWriteLockAsync(LockCallback callback);
  PendingLock TryWriteLockForAsync(Duration max_wait, LockCallback callback);

 private:
  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<const internal::Spec> read_;
  std::shared_ptr<const internal::Spec> write_;
};

}  // namespace distlock
