// SPDX-License-Identifier: Apache-2.0
//
// Guard: one held lock. Move-only; its destructor gives the lock back without waiting for the answer.
//
// 1. state() compares the present CLOCK_BOOTTIME with the deadline at the moment of the call: it never says kHeld or
//    kAtRisk after the deadline, even when no thread of this process ran in between.
// 2. kLost and kReleased are final; a lost lock never comes back.
// 3. Thread-safe, except for moving and destroying, which need the guard to themselves.
// A guard may outlive its Client; its lock does not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "distlock/types.h"

namespace distlock {

namespace internal {
class Core;
struct Lease;
}  // namespace internal

using ReleaseCallback = std::function<void(ReleaseOutcome)>;
using DowngradeCallback = std::function<void(std::optional<Refusal>)>;

class Guard {
 public:
  Guard() = default;  // holds nothing: state() is kReleased, token() 0
  Guard(Guard&& other) noexcept = default;
  Guard& operator=(Guard&& other) noexcept;
  ~Guard();

  // Gives the lock back and waits for the answer: one round trip, at most until the stream is known to be dead.
  ReleaseOutcome Release();

  // Gives the lock back; `callback` (may be empty) gets the outcome on a thread of the library and must not block.
  // Called at once, on this thread, when the lock had already ended.
  void ReleaseAsync(ReleaseCallback callback);

  // Of a write lock (RwLock::WriteLock, Mutex::Lock): makes it a read lock in one step. No writer comes between, readers
  // that wait in front enter, and the token stays. There is no way back: two readers that each wait for the other to leave
  // would wait for ever. Waits for the answer; nothing: it is done. Refused with kNotSupported for a guard of a Semaphore,
  // with kNotHolder when the lock has ended. After kStoreUnavailable or kUnreachable it is not known whether others read
  // by now: do not write any more, and call it again. Repeating it is harmless.
  std::optional<Refusal> Downgrade();

  // The same without blocking. `callback` is called exactly once, on a thread of the library, and must not block; at once,
  // on this thread, when the lock had already ended.
  void DowngradeAsync(DowngradeCallback callback);

  // Read without a round trip; runs no callback.
  LockState state() const;

  // Stopped when the lock ends in any way: released, lost, client destroyed.
  std::stop_token stop_token() const;

  EndCause end_cause() const;       // kNotEnded while held
  std::string end_message() const;  // the broker's or the library's words about it, for people

  uint64_t token() const;                // the fencing token: hand it to the resource you protect
  uint32_t hold_count() const;           // 1; of a reentrant lock how many of our guards had it with this one
  const std::string& lease_id() const;   // secret: whoever knows it can release the lock
  const std::string& holder_id() const;  // public
  int64_t valid_until() const;           // CLOCK_BOOTTIME nanoseconds; grows while the broker is heard
  Duration waited() const;

 private:
  friend class internal::Core;
  friend class MultiGuard;
  Guard(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::Lease> lease);
  void StopsAlso(std::stop_source stop) const;

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::Lease> lease_;
};

using LockCallback = std::function<void(Result<Guard>)>;

}  // namespace distlock
