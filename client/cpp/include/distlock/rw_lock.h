// SPDX-License-Identifier: Apache-2.0
//
// RwLock: a lock that many readers have at a time, or one writer, named by (namespace, key). It is the same lock as a
// Mutex of that name, whose Lock is WriteLock here. An RwLock is only a name and options bound to a client; copies are
// cheap and equal. Thread-safe: any number of acquires may run at once, each gets its own Guard with its own token.
// Neither recursive nor upgradable: WriteLock while holding ReadLock waits for itself, and so may a second ReadLock,
// behind a writer that waits. An RwLock may outlive its Client; acquires then answer kClientClosed.
//
// A writer that has only to look from now on calls Guard::Downgrade: it goes on as a reader, and no writer comes between.
//
// LockOptions::policy says who goes next. By default (kFair) readers and writers are served in the order of their
// arrival, and neighbouring readers enter together: neither side starves the other.
#pragma once

#include <stop_token>
#include <string>

#include "distlock/acquirer.h"
#include "distlock/guard.h"
#include "distlock/types.h"

namespace distlock {

class Client;

class RwLock {
 public:
  RwLock(Client& client, std::string key, LockOptions options = {});

  // For reading: beside other readers. Waits until granted, or for options.max_wait. `cancel` withdraws the wait: the
  // answer is then kCancelled, and nothing is held.
  Result<Guard> ReadLock(std::stop_token cancel = {});

  // One try: never queues, and so never keeps others waiting.
  Result<Guard> TryReadLock();

  // Waits at most this long; for a broker that falls silent half a second longer, as its answer may be on its way.
  Result<Guard> TryReadLockFor(Duration max_wait, std::stop_token cancel = {});

  // For writing: alone. Otherwise as above.
  Result<Guard> WriteLock(std::stop_token cancel = {});
  Result<Guard> TryWriteLock();
  Result<Guard> TryWriteLockFor(Duration max_wait, std::stop_token cancel = {});

  // The same without blocking. `callback` is called exactly once, on a thread of the library, and must not block; it
  // may start further acquires and releases, which then leave together. It may be called before this returns.
  PendingLock ReadLockAsync(LockCallback callback);
  PendingLock TryReadLockAsync(LockCallback callback);
  PendingLock TryReadLockForAsync(Duration max_wait, LockCallback callback);
  PendingLock WriteLockAsync(LockCallback callback);
  PendingLock TryWriteLockAsync(LockCallback callback);
  PendingLock TryWriteLockForAsync(Duration max_wait, LockCallback callback);

 private:
  internal::Acquirer read_;
  internal::Acquirer write_;
};

}  // namespace distlock
