// SPDX-License-Identifier: Apache-2.0
//
// Semaphore: a lock of `limit` permits, named by (namespace, key); each holder takes one or more of them. A Semaphore
// is only a name and options bound to a client; copies are cheap and equal. Thread-safe: any number of acquires may run
// at once, each gets its own Guard, which gives back all the permits it was granted. Whoever asks for more while it
// holds some may wait for itself. A Semaphore may outlive its Client; acquires then answer kClientClosed.
//
// Everybody must name the same limit: while the lock is held, another limit is refused with kLimitMismatch, and so are
// Mutex and RwLock of that name. Permits are given in the order of arrival: one who wants many is not passed by those
// who want few, under any policy but kAdaptive.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "distlock/acquirer.h"
#include "distlock/guard.h"
#include "distlock/types.h"

namespace distlock {

class Client;

class Semaphore {
 public:
  Semaphore(Client& client, std::string key, uint32_t limit, LockOptions options = {});

  // `permits`: 1 .. limit; anything else is refused with kInvalidArgument.
  // Waits until granted, or for options.max_wait. `cancel` withdraws the wait: the answer is then kCancelled, and
  // nothing is held.
  Result<Guard> Acquire(uint32_t permits = 1, std::stop_token cancel = {});

  // One try: never queues.
  Result<Guard> TryAcquire(uint32_t permits = 1);

  // Waits at most this long; for a broker that falls silent half a second longer, as its answer may be on its way.
  Result<Guard> TryAcquireFor(Duration max_wait, uint32_t permits = 1, std::stop_token cancel = {});

  // The same three without blocking. `callback` is called exactly once, on a thread of the library, and must not block;
  // it may start further acquires and releases, which then leave together. It may be called before this returns.
  PendingLock AcquireAsync(LockCallback callback, uint32_t permits = 1);
  PendingLock TryAcquireAsync(LockCallback callback, uint32_t permits = 1);
  PendingLock TryAcquireForAsync(Duration max_wait, LockCallback callback, uint32_t permits = 1);

 private:
  internal::Acquirer For(uint32_t permits) const;

  internal::Acquirer one_permit_;
};

}  // namespace distlock
