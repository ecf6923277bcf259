// SPDX-License-Identifier: Apache-2.0
//
// Mutex: a lock that one holder has at a time, named by (namespace, key). A Mutex is only a name and options bound to a
// client; copies are cheap and equal. Thread-safe: any number of acquires may run at once, each gets its own Guard.
// Not recursive, but with LockOptions::reentrant. A Mutex may outlive its Client; acquires then answer kClientClosed.
#pragma once

#include <stop_token>
#include <string>

#include "distlock/acquirer.h"
#include "distlock/guard.h"
#include "distlock/types.h"

namespace distlock {

class Client;

class Mutex {
 public:
  Mutex(Client& client, std::string key, LockOptions options = {});

  // Waits until granted, or for options.max_wait. `cancel` withdraws the wait: the answer is then kCancelled, and
  // nothing is held.
  Result<Guard> Lock(std::stop_token cancel = {});

  // One try: never queues.
  Result<Guard> TryLock();

  // Waits at most this long; for a broker that falls silent half a second longer, as its answer may be on its way.
  Result<Guard> TryLockFor(Duration max_wait, std::stop_token cancel = {});

  // The same three without blocking. `callback` is called exactly once, on a thread of the library, and must not block;
  // it may start further acquires and releases, which then leave together. It may be called before this returns.
  PendingLock LockAsync(LockCallback callback);
  PendingLock TryLockAsync(LockCallback callback);
  PendingLock TryLockForAsync(Duration max_wait, LockCallback callback);

 private:
  internal::Acquirer lock_;
};

}  // namespace distlock
