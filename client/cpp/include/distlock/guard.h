// SPDX-License-Identifier: Apache-2.0
//
// Guard: one held lock. Move-only; its destructor gives the lock back without waiting for the answer.
//
// 1. state() compares the present CLOCK_BOOTTIME with the deadline at the moment of the call: it never says kHeld or
//    kAtRisk after the deadline, even when no thread of this process ran in between.
// 2. kLost and kReleased are final; a lost lock never comes back.
// 3. Thread-safe, except for moving and destroying, which need the guard to themselves.
// 4. Release(), ReleaseAsync() and the destructor stop the lock's stop tokens on their own thread; callbacks that are
//    registered with the tokens run there. Any other end stops them on a thread of the library. ReleaseCallback and
//    DowngradeCallback always run on a thread of the library (see client.h). None of these callbacks may throw.
// A guard may outlive its Client; its lock does not.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "distlock/callback.h"
#include "distlock/types.h"

namespace distlock {

namespace internal {
class Core;
struct Lease;
}  // namespace internal

using ReleaseCallback = Callback<void(ReleaseOutcome)>;
using DowngradeCallback = Callback<void(std::optional<Refusal>)>;

class Guard {
 public:
  Guard() = default;  // holds nothing: state() is kReleased, token() 0
  Guard(Guard&& other) noexcept = default;
  Guard& operator=(Guard&& other) noexcept;
  ~Guard();

  // Gives the lock back and waits for the answer: one round trip, or until the stream is known to be dead. Called from
  // a callback of the library it does not wait and returns kUnknown.
  ReleaseOutcome Release();

  // Gives the lock back without waiting. `callback` (may be empty) is called exactly once with the outcome, on a thread
  // of the library, perhaps before this returns. It must neither block nor throw.
  void ReleaseAsync(ReleaseCallback callback);

  // Makes a write lock (RwLock::WriteLock, Mutex::Lock) a read lock in one step, and waits for the answer. Returns
  // nothing on success, else the reason. No writer comes in between, readers at the front of the queue enter, and the
  // token stays the same. A read lock cannot become a write lock again, because two readers that both tried would wait
  // for each other for ever. kNotSupported: the guard is a Semaphore's. kNotHolder: the lock has ended. After
  // kStoreUnavailable or kUnreachable other readers may or may not have entered: stop writing, and call Downgrade
  // again. Repeating it is harmless.
  std::optional<Refusal> Downgrade();

  // The same without blocking. `callback` is called exactly once, on a thread of the library, perhaps before this
  // returns. It must neither block nor throw.
  void DowngradeAsync(DowngradeCallback callback);

  // Read without a round trip; runs no callback.
  LockState state() const;

  // Stops when the lock ends in any way: released, lost, client destroyed. In a child of fork the returned token is
  // stopped already; but a token that was taken before the fork never stops in the child.
  std::stop_token stop_token() const;

  EndCause end_cause() const;       // kNotEnded while held
  std::string end_message() const;  // how it ended, for people

  int64_t token() const;                 // the fencing token: hand it to the resource you protect
  int32_t hold_count() const;            // 1; for a reentrant lock the number of its guards, this one included
  const std::string& lease_id() const;   // secret: whoever knows it can release the lock; new once it has moved
  const std::string& holder_id() const;  // public; new once the lock has moved
  int64_t valid_until() const;           // CLOCK_BOOTTIME nanoseconds; grows while the broker is heard
  Duration time_left() const;            // until then: what the holder may rely on now; 0 once the lock has ended
  Duration waited() const;               // from the acquire's arrival at the broker until the grant

  // Which lock it is, as it was asked for; empty for an empty guard.
  const std::string& key() const;
  const std::string& lock_namespace() const;  // never "": the namespace `default` has that name
  LockMode mode() const;                      // kShared after a Downgrade
  int32_t permits() const;                    // kPermit only

 private:
  friend class internal::Core;
  friend class Leadership;
  friend class MultiGuard;
  Guard(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::Lease> lease);

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::Lease> lease_;
};

using LockCallback = Callback<void(Result<Guard>)>;

}  // namespace distlock
