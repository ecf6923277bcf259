// SPDX-License-Identifier: Apache-2.0
//
// Mutex, RwLock, Semaphore: which mode each asks for. The waits are the Acquirer's.
#include <utility>

#include "core.h"
#include "distlock/client.h"

namespace distlock {

using internal::Acquirer;
using internal::MakeSpec;

Mutex::Mutex(Client& client, std::string key, LockOptions options)
    : lock_(client.core_, MakeSpec(std::move(key), std::move(options))) {}

Result<Guard> Mutex::Lock(std::stop_token cancel) { return lock_.Acquire(cancel); }
Result<Guard> Mutex::TryLock() { return lock_.TryAcquire(); }
Result<Guard> Mutex::TryLockFor(Duration max_wait, std::stop_token cancel) {
  return lock_.TryAcquireFor(max_wait, cancel);
}

PendingLock Mutex::LockAsync(LockCallback callback) { return lock_.AcquireAsync(std::move(callback)); }
PendingLock Mutex::TryLockAsync(LockCallback callback) { return lock_.TryAcquireAsync(std::move(callback)); }
PendingLock Mutex::TryLockForAsync(Duration max_wait, LockCallback callback) {
  return lock_.TryAcquireForAsync(max_wait, std::move(callback));
}

RwLock::RwLock(Client& client, std::string key, LockOptions options)
    : read_(client.core_, MakeSpec(key, options, {.mode = v1::LOCK_MODE_SHARED})),
      write_(client.core_, MakeSpec(std::move(key), std::move(options))) {}

Result<Guard> RwLock::ReadLock(std::stop_token cancel) { return read_.Acquire(cancel); }
Result<Guard> RwLock::TryReadLock() { return read_.TryAcquire(); }
Result<Guard> RwLock::TryReadLockFor(Duration max_wait, std::stop_token cancel) {
  return read_.TryAcquireFor(max_wait, cancel);
}

Result<Guard> RwLock::WriteLock(std::stop_token cancel) { return write_.Acquire(cancel); }
Result<Guard> RwLock::TryWriteLock() { return write_.TryAcquire(); }
Result<Guard> RwLock::TryWriteLockFor(Duration max_wait, std::stop_token cancel) {
  return write_.TryAcquireFor(max_wait, cancel);
}

PendingLock RwLock::ReadLockAsync(LockCallback callback) { return read_.AcquireAsync(std::move(callback)); }
PendingLock RwLock::TryReadLockAsync(LockCallback callback) { return read_.TryAcquireAsync(std::move(callback)); }
PendingLock RwLock::TryReadLockForAsync(Duration max_wait, LockCallback callback) {
  return read_.TryAcquireForAsync(max_wait, std::move(callback));
}

PendingLock RwLock::WriteLockAsync(LockCallback callback) { return write_.AcquireAsync(std::move(callback)); }
PendingLock RwLock::TryWriteLockAsync(LockCallback callback) { return write_.TryAcquireAsync(std::move(callback)); }
PendingLock RwLock::TryWriteLockForAsync(Duration max_wait, LockCallback callback) {
  return write_.TryAcquireForAsync(max_wait, std::move(callback));
}

Semaphore::Semaphore(Client& client, std::string key, uint32_t limit, LockOptions options)
    : one_permit_(client.core_, MakeSpec(std::move(key), std::move(options),
                                         {.mode = v1::LOCK_MODE_PERMIT, .permits = 1, .limit = limit})) {}

// Most want one permit; for any other number the spec is made anew, which costs nothing beside the round trip.
Acquirer Semaphore::For(uint32_t permits) const {
  return permits == 1 ? one_permit_ : one_permit_.WithPermits(permits);
}

Result<Guard> Semaphore::Acquire(uint32_t permits, std::stop_token cancel) { return For(permits).Acquire(cancel); }
Result<Guard> Semaphore::TryAcquire(uint32_t permits) { return For(permits).TryAcquire(); }
Result<Guard> Semaphore::TryAcquireFor(Duration max_wait, uint32_t permits, std::stop_token cancel) {
  return For(permits).TryAcquireFor(max_wait, cancel);
}

PendingLock Semaphore::AcquireAsync(LockCallback callback, uint32_t permits) {
  return For(permits).AcquireAsync(std::move(callback));
}
PendingLock Semaphore::TryAcquireAsync(LockCallback callback, uint32_t permits) {
  return For(permits).TryAcquireAsync(std::move(callback));
}
PendingLock Semaphore::TryAcquireForAsync(Duration max_wait, LockCallback callback, uint32_t permits) {
  return For(permits).TryAcquireForAsync(max_wait, std::move(callback));
}

}  // namespace distlock
