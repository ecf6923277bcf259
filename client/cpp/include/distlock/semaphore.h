// SPDX-License-Identifier: Apache-2.0
//
// Semaphore: a lock of `limit` permits, named by (namespace, key); each holder takes one or more of them. A Semaphore
// is only a name and options bound to a client; copies are cheap and equal. Thread-safe: any number of acquires may run
// at once, and each gets a Guard of its own, which gives back all the permits it was granted. A caller that asks for
// more permits while it holds some may wait for itself. A Semaphore may outlive its Client; acquires are then refused
// with kClientClosed.
//
// All callers should use the same limit. While the lock is held, an acquire with another limit waits until all holders
// are gone, and so does a Mutex or an RwLock of that name; one try is refused with kLimitMismatch. Permits are given in
// the order of arrival: callers that want few permits do not overtake a caller that wants many, except under kAdaptive.
//
// A limit below 1, permits below 1 and permits above the limit are refused with kInvalidArgument.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "distlock/guard.h"
#include "distlock/pending_lock.h"
#include "distlock/types.h"

namespace distlock {

class Client;

class Semaphore {
 public:
  Semaphore(Client& client, std::string key, int32_t limit, LockOptions options = {});

  // Waits until the permits are granted, or for options.max_wait. `cancel` withdraws the wait: the answer is then
  // kCancelled, and nothing is held. `permits`: 1 .. limit; anything else is refused with kInvalidArgument.
  Result<Guard> Acquire(int32_t permits = 1, std::stop_token cancel = {});

  // Tries once and never queues.
  Result<Guard> TryAcquire(int32_t permits = 1);

  // Waits at most this long. When the broker falls silent, it waits half a second longer for an answer that may be on
  // its way.
  Result<Guard> TryAcquireFor(Duration max_wait, int32_t permits = 1, std::stop_token cancel = {});

  // Waits until this time of any clock at most. A clock that is set meanwhile does not change the wait.
  template <class Clock, class D>
  Result<Guard> TryAcquireUntil(const std::chrono::time_point<Clock, D>& until, int32_t permits = 1,
                                std::stop_token cancel = {}) {
    return TryAcquireFor(TimeUntil(until), permits, std::move(cancel));
  }

  // The same three without blocking. `callback` is called exactly once, on a thread of the library (see client.h),
  // perhaps before this returns. It must neither block nor throw. It may start acquires and releases, which then leave
  // together.
  PendingLock AcquireAsync(LockCallback callback, int32_t permits = 1);
  PendingLock TryAcquireAsync(LockCallback callback, int32_t permits = 1);
  PendingLock TryAcquireForAsync(Duration max_wait, LockCallback callback, int32_t permits = 1);

 private:
  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<const internal::Spec> one_permit_;
};

}  // namespace distlock
