// SPDX-License-Identifier: Apache-2.0
//
// Mutex, RwLock, Semaphore: each adds its mode to the request. The Acquirer does the waiting.
#include <utility>

#include "acquirer.h"
#include "distlock/client.h"

namespace distlock {

using internal::Acquirer;
using internal::MakeSpec;
using internal::WithPermits;

Mutex::Mutex(Client& client, std::string key, LockOptions options)
    : core_(client.core_), spec_(MakeSpec(std::move(key), std::move(options))) {}

Result<Guard> Mutex::Lock(std::stop_token cancel) { return Acquirer(core_, spec_).Acquire(cancel); }
Result<Guard> Mutex::TryLock() { return Acquirer(core_, spec_).TryAcquire(); }
Result<Guard> Mutex::TryLockFor(Duration max_wait, std::stop_token cancel) {
  return Acquirer(core_, spec_).TryAcquireFor(max_wait, cancel);
}

PendingLock Mutex::LockAsync(LockCallback callback) { return Acquirer(core_, spec_).AcquireAsync(std::move(callback)); }
PendingLock Mutex::TryLockAsync(LockCallback callback) {
  return Acquirer(core_, spec_).TryAcquireAsync(std::move(callback));
}
PendingLock Mutex::TryLockForAsync(Duration max_wait, LockCallback callback) {
  return Acquirer(core_, spec_).TryAcquireForAsync(max_wait, std::move(callback));
}

RwLock::RwLock(Client& client, std::string key, LockOptions options)
    : core_(client.core_),
      read_(MakeSpec(key, options, {.mode = v1::LOCK_MODE_SHARED})),
      write_(MakeSpec(std::move(key), std::move(options))) {}

Result<Guard> RwLock::ReadLock(std::stop_token cancel) { return Acquirer(core_, read_).Acquire(cancel); }
Result<Guard> RwLock::TryReadLock() { return Acquirer(core_, read_).TryAcquire(); }
Result<Guard> RwLock::TryReadLockFor(Duration max_wait, std::stop_token cancel) {
  return Acquirer(core_, read_).TryAcquireFor(max_wait, cancel);
}

Result<Guard> RwLock::WriteLock(std::stop_token cancel) { return Acquirer(core_, write_).Acquire(cancel); }
Result<Guard> RwLock::TryWriteLock() { return Acquirer(core_, write_).TryAcquire(); }
Result<Guard> RwLock::TryWriteLockFor(Duration max_wait, std::stop_token cancel) {
  return Acquirer(core_, write_).TryAcquireFor(max_wait, cancel);
}

PendingLock RwLock::ReadLockAsync(LockCallback callback) {
  return Acquirer(core_, read_).AcquireAsync(std::move(callback));
}
PendingLock RwLock::TryReadLockAsync(LockCallback callback) {
  return Acquirer(core_, read_).TryAcquireAsync(std::move(callback));
}
PendingLock RwLock::TryReadLockForAsync(Duration max_wait, LockCallback callback) {
  return Acquirer(core_, read_).TryAcquireForAsync(max_wait, std::move(callback));
}

PendingLock RwLock::WriteLockAsync(LockCallback callback) {
  return Acquirer(core_, write_).AcquireAsync(std::move(callback));
}
PendingLock RwLock::TryWriteLockAsync(LockCallback callback) {
  return Acquirer(core_, write_).TryAcquireAsync(std::move(callback));
}
PendingLock RwLock::TryWriteLockForAsync(Duration max_wait, LockCallback callback) {
  return Acquirer(core_, write_).TryAcquireForAsync(max_wait, std::move(callback));
}

Semaphore::Semaphore(Client& client, std::string key, int32_t limit, LockOptions options)
    : core_(client.core_),
      one_permit_(
          MakeSpec(std::move(key), std::move(options), {.mode = v1::LOCK_MODE_PERMIT, .permits = 1, .limit = limit})) {}

Result<Guard> Semaphore::Acquire(int32_t permits, std::stop_token cancel) {
  return Acquirer(core_, WithPermits(one_permit_, permits)).Acquire(cancel);
}
Result<Guard> Semaphore::TryAcquire(int32_t permits) {
  return Acquirer(core_, WithPermits(one_permit_, permits)).TryAcquire();
}
Result<Guard> Semaphore::TryAcquireFor(Duration max_wait, int32_t permits, std::stop_token cancel) {
  return Acquirer(core_, WithPermits(one_permit_, permits)).TryAcquireFor(max_wait, cancel);
}

PendingLock Semaphore::AcquireAsync(LockCallback callback, int32_t permits) {
  return Acquirer(core_, WithPermits(one_permit_, permits)).AcquireAsync(std::move(callback));
}
PendingLock Semaphore::TryAcquireAsync(LockCallback callback, int32_t permits) {
  return Acquirer(core_, WithPermits(one_permit_, permits)).TryAcquireAsync(std::move(callback));
}
PendingLock Semaphore::TryAcquireForAsync(Duration max_wait, LockCallback callback, int32_t permits) {
  return Acquirer(core_, WithPermits(one_permit_, permits)).TryAcquireForAsync(max_wait, std::move(callback));
}

}  // namespace distlock
