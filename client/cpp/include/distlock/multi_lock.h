// SPDX-License-Identifier: Apache-2.0
//
// MultiLock: several locks, all or nothing. The broker takes them in one global order, so programs that ask for several
// at once never wait for each other in a circle, in whatever order they name them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "distlock/guard.h"
#include "distlock/pending_lock.h"
#include "distlock/types.h"

namespace distlock {

class Client;

// A list of locks and how each is taken: 1..64 different locks. A plain value.
class LockSet {
 public:
  LockSet() = default;
  // Takes each key as Mutex::Lock does.
  explicit LockSet(const std::vector<std::string>& keys, const LockOptions& options = {});

  // Each adds one lock. LockOptions::max_wait is ignored, see MaxWait; `reentrant` is refused.
  LockSet& Exclusive(std::string key, LockOptions options = {});
  LockSet& Shared(std::string key, LockOptions options = {});
  LockSet& Permits(std::string key, int32_t limit, int32_t permits = 1, LockOptions options = {});

  // How long MultiLock::Lock waits for all locks together: unset waits until granted, 0 tries once.
  LockSet& MaxWait(std::optional<Duration> max_wait);

  size_t size() const { return locks_.size(); }

 private:
  friend class MultiLock;

  std::vector<std::shared_ptr<const internal::Spec>> locks_;
  std::optional<Duration> max_wait_;
};

// The locks of a LockSet, in its order. Each is a lock like any other and may be lost without the others. Move-only;
// its destructor gives all of them back without waiting for the answer. Thread-safe, except for moving and destroying.
class MultiGuard {
 public:
  MultiGuard();  // holds nothing: state() is kReleased
  MultiGuard(MultiGuard&&) noexcept;
  MultiGuard& operator=(MultiGuard&&) noexcept;
  ~MultiGuard();

  // Gives all locks back and waits for the answers. kAlreadyGone when one lock had ended before, else kUnknown when one
  // answer did not come.
  ReleaseOutcome Release();

  // The worst state of all locks: kLost when one is lost, else kReleased when one is released, else kAtRisk when one is
  // at risk. Compares each lock's deadline with the clock at the moment of the call, as Guard::state() does.
  LockState state() const;

  // Stops when any of the locks ends in any way. See Guard::stop_token.
  std::stop_token stop_token() const;

  EndCause end_cause() const;       // of the first lost lock in the set's order, else of one that ended
  std::string end_message() const;  // of the same lock

  size_t size() const;
  int64_t token(size_t i) const { return part(i).token(); }  // REQUIRES: i < size()
  const Guard& part(size_t i) const;                         // REQUIRES: i < size()
  Guard& part(size_t i);                                     // to give one of them back before the others
  int64_t valid_until() const;                               // the earliest of all
  Duration time_left() const;                                // of the one that has least
  Duration waited() const;                                   // for all together

 private:
  friend class MultiLock;
  struct Parts;
  MultiGuard(std::vector<Guard> guards, std::stop_token any_ends);

  std::unique_ptr<Parts> parts_;
};

using MultiLockCallback = Callback<void(Result<MultiGuard>)>;

// A MultiLock is only a set bound to a client; copies are cheap and equal. Thread-safe. It may outlive its Client;
// acquires are then refused with kClientClosed.
class MultiLock {
 public:
  MultiLock(Client& client, LockSet locks);

  // Waits until all locks are granted, or for the set's max_wait. While it waits for some locks, it already holds the
  // others. `cancel` withdraws the wait: the answer is then kCancelled, and nothing is held.
  Result<MultiGuard> Lock(std::stop_token cancel = {});

  // Tries once and never queues: refused when one of the locks is held.
  Result<MultiGuard> TryLock();

  // Waits at most this long for all together. When the broker falls silent, it waits half a second longer for an answer
  // that may be on its way.
  Result<MultiGuard> TryLockFor(Duration max_wait, std::stop_token cancel = {});

  // Waits until this time of any clock at most. A clock that is set meanwhile does not change the wait.
  template <class Clock, class D>
  Result<MultiGuard> TryLockUntil(const std::chrono::time_point<Clock, D>& until, std::stop_token cancel = {}) {
    return TryLockFor(TimeUntil(until), std::move(cancel));
  }

  // The same three without blocking. `callback` is called exactly once, on a thread of the library (see client.h),
  // perhaps before this returns. It must neither block nor throw. It may start acquires and releases, which then leave
  // together.
  PendingLock LockAsync(MultiLockCallback callback);
  PendingLock TryLockAsync(MultiLockCallback callback);
  PendingLock TryLockForAsync(Duration max_wait, MultiLockCallback callback);

 private:
  Result<MultiGuard> Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const;
  PendingLock Start(std::optional<Duration> max_wait, MultiLockCallback callback) const;
  template <class Leases>
  static Result<MultiGuard> GuardOf(const std::shared_ptr<internal::Core>& core, Result<Leases> answer);

  std::shared_ptr<internal::Core> core_;
  LockSet locks_;
};

}  // namespace distlock
