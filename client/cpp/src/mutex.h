// SPDX-License-Identifier: Apache-2.0
//
// The mutex and the notification of this library: the standard library's, with Abseil's annotations. Abseil's own looks
// for deadlocks at each lock where it was built so, as Debian's is, and an installed one hides from ThreadSanitizer.
#pragma once

#include <absl/base/thread_annotations.h>

#include <condition_variable>
#include <mutex>

#include "distlock/types.h"

namespace distlock::internal {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    mu_.unlock();
    changed_.notify_all();
  }
  // Held. Waits until `condition` is true, which may change whenever the mutex is unlocked.
  template <class Condition>
  bool AwaitFor(Condition condition, Duration longest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock lock(mu_, std::adopt_lock);
    const bool came = changed_.wait_for(lock, longest, condition);
    lock.release();
    return came;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mu_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mu_;
};

class Notification {
 public:
  // The waiter may destroy this as soon as it wakes, so the mutex is held until the end.
  void Notify() {
    const std::lock_guard lock(mu_);
    notified_ = true;
    came_.notify_all();
  }
  bool HasBeenNotified() {
    const std::lock_guard lock(mu_);
    return notified_;
  }
  void WaitForNotification() {
    std::unique_lock lock(mu_);
    came_.wait(lock, [this] { return notified_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable came_;
  bool notified_ = false;
};

}  // namespace distlock::internal
