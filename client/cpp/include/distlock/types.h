// SPDX-License-Identifier: Apache-2.0
//
// The values that the client library takes and returns: what can be asked for, why no lock was given, how a lock ended.
// They are free of gRPC and protobuf; any thread may use its own copy. Names and numbers of RefusalReason below 100 are
// those of the wire (proto/distlock/v1/lock.proto); those from 100 on are made by this library.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace distlock {

using Duration = std::chrono::nanoseconds;

// How much a line of ClientOptions::log matters. kDebug: each attempt to connect. kInfo: connected, moved. kWarning: a
// stream broke, an attempt failed, the broker drains.
enum class LogLevel { kDebug = 0, kInfo = 1, kWarning = 2 };

// From now until a time of any clock, for the TryLockUntil of each kind of lock. Zero when it has passed, and
// Duration::max(), which waits for ever, when it is more than a century away.
template <class Clock, class D>
Duration TimeUntil(const std::chrono::time_point<Clock, D>& until) {
  const auto now = Clock::now();
  if (until <= now) return Duration::zero();
  const auto left = until - now;
  if (left > std::chrono::hours(24 * 365 * 100)) return Duration::max();
  return std::chrono::ceil<Duration>(left);
}

// The broker's way with a lock whose stream broke.
enum class OnDisconnect {
  kSafe = 1,     // frees it when its last promise to this client has ended: within the validity (3 s)
  kRelease = 2,  // frees it at once, although this client may not have noticed yet
  kExpire = 3,   // leaves it to its ttl
};

// Why no lock was given.
enum class RefusalReason {
  kUnspecified = 0,
  kLockHeld = 1,
  kWaitTimeout = 2,
  kLeaseLost = 3,
  kNotHolder = 4,
  kLimitMismatch = 5,
  kForeignKey = 6,
  kInvalidArgument = 7,
  kNotSupported = 8,
  kQuotaExceeded = 9,
  kStoreFull = 10,
  kStoreUnavailable = 11,
  kQuorumNotReached = 12,
  kDraining = 13,
  kUnauthenticated = 14,
  kPermissionDenied = 15,
  kCancelled = 16,
  kStoreHoldOff = 17,    // the store may have forgotten a holder: nobody new has a lock for so long
  kUnreachable = 100,    // no broker answered in time; see ClientOptions::unreachable_timeout
  kClientClosed = 101,   // the Client was destroyed first, or belongs to the process that forked this one
  kWouldDeadlock = 102,  // a blocking call was made in a callback of this library
  kInternal = 103,       // the answer makes no sense: the broker's fault, or a proxy's. What was done is not known
};

// The wire name, e.g. "LOCK_HELD".
std::string_view Name(RefusalReason reason);

// How a lock is held: alone (Mutex, writer), beside other readers, or as permits of a Semaphore.
enum class LockMode { kExclusive = 1, kShared = 2, kPermit = 3 };

// The wire name, e.g. "SHARED".
std::string_view Name(LockMode mode);

// A holder of a lock, as everybody may see it.
struct Holder {
  std::string holder_id;
  std::string owner;
  std::map<std::string, std::string> metadata;
  LockMode mode = LockMode::kExclusive;
  int32_t permits = 0;  // kPermit only
  int32_t limit = 0;    // kPermit only: out of how many; 0: not known
  int64_t fencing_token = 0;
  std::chrono::system_clock::time_point acquire_time;  // by the store's clock
  Duration held_for{0};                                // since then, by the same clock; 0: not known
  bool detached = false;                               // its caller renews it, not its broker
  Duration time_left{0};
  Duration ttl{0};
  std::string broker_id;
};

// The lock is kept from everybody after its last holder: that ended abnormally and had a lock_delay, or it was released
// before its min_hold. Of several blocks, the one that lasts longest.
struct LockBlock {
  std::chrono::system_clock::time_point start_time;    // when that holder ended, by the store's clock
  Duration time_left{0};                               // until others may have it
  std::string owner;                                   // of that holder
  Duration min_hold{0};                                // of that holder; 0: it is a lock_delay that runs
  std::chrono::system_clock::time_point acquire_time;  // when that holder was granted it, by the store's clock
};

struct FieldProblem {
  std::string field;
  std::string description;
};

struct Refusal {
  RefusalReason reason = RefusalReason::kUnspecified;
  std::string message;  // for people: what was wrong and what to do next
  std::optional<Duration> retry_after;
  Duration waited{0};
  std::vector<Holder> holders;  // as far as known, at most 16
  int32_t queue_length = 0;
  std::vector<FieldProblem> field_problems;
  std::optional<LockBlock> block;  // set when nobody may have the lock, or a part of it
  std::string cause;               // kUnreachable, when no broker was found: why not. Else ""
};

// The place in the queue at the moment of joining it.
struct QueuedInfo {
  int32_t position = 0;  // how many wait in front
  std::vector<Holder> holders;
  std::optional<LockBlock> block;  // as in Refusal
};

// The order of several waiters. Applies to the request that names it.
enum class QueuePolicy {
  kDefault = 0,           // kFair
  kFair = 1,              // order of arrival; neighbouring readers share
  kWriterPreferring = 2,  // waiting writers first
  kReaderPreferring = 3,  // readers enter whenever no writer holds the lock
  kAdaptive = 4,          // newcomers may take a free lock until some waiter has waited for 100 ms
};

struct LockOptions {
  std::string lock_namespace;        // "" = "default"
  std::optional<Duration> ttl;       // how long the store keeps the lock when the broker crashes; unset: 15 s
  std::optional<Duration> max_wait;  // for Lock() and its like: unset waits until granted, 0 tries once
  Duration max_hold{0};              // the lock ends this long after its grant; 0: never
  Duration lock_delay{0};            // after an abnormal end the lock stays taken for this long
  Duration min_hold{0};              // released sooner after its grant, it stays taken until then; not for MultiLock
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  QueuePolicy policy = QueuePolicy::kDefault;
  std::string owner;  // label shown to others, up to 256 bytes; "": user@host:pid, but of a reentrant lock none
  std::map<std::string, std::string> metadata;  // shown to others, up to 1 KiB
  // Re-entry: while this client holds the lock, another acquire with the same non-empty owner succeeds at once. It gets
  // another Guard with the same token and a hold_count one greater. The lock is free when the last of these guards is
  // released; ttl, max_hold, min_hold, lock_delay and on_disconnect stay those of the first. Not for MultiLock.
  bool reentrant = false;
  // When the stream to the broker breaks, the lock is lost at once. With `resume` it is kAtRisk instead, for as long as
  // the broker's last promise holds (at most 3 s), and goes on under the same token when a broker of the same store is
  // reached in time: another one, or the same one after a restart. Has no effect with OnDisconnect::kRelease.
  bool resume = false;
  // Called when an acquire has to queue, on a thread of the library. It must neither block nor throw.
  std::function<void(const QueuedInfo&)> on_queued;
};

// The state of a lock. kLost and kReleased are final.
enum class LockState {
  kHeld,
  kAtRisk,  // still held, but renewals or heartbeats fail, or its stream broke: finish before the deadline
  kLost,
  kReleased,
};

// How a lock ended. The broker reports the causes up to kReleased; the client itself finds those from kLapsed on.
enum class EndCause {
  kNotEnded = 0,
  kExpired = 1,       // the broker could not renew it in time
  kTaken = 2,         // the store has no such lock any more, or another holder or session has it
  kForced = 3,        // an administrator released it
  kMaxHold = 4,       // LockOptions::max_hold passed
  kDrained = 5,       // the broker shut down
  kReleased = 6,      // given back, by the guard or by somebody who knows its lease_id
  kLapsed = 7,        // the client's own deadline passed before the broker was heard again
  kDisconnected = 8,  // the stream to the broker ended
  kClientClosed = 9,  // the Client was destroyed
};

std::string_view Name(EndCause cause);
std::string_view Name(LockState state);

enum class ReleaseOutcome {
  kReleased,     // this call gave it back
  kStillHeld,    // reentrant: other guards of this client still hold it
  kAlreadyGone,  // it had ended before; nothing was changed
  kUnknown,      // no answer came; the lock is freed all the same, at the latest when its ttl ends
};

std::string_view Name(ReleaseOutcome outcome);

// A T, or why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}            // NOLINT: converts on purpose
  Result(Refusal refusal) : value_(std::in_place_index<1>, std::move(refusal)) {}  // NOLINT

  bool ok() const { return value_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok(); anything else ends the process.
  T& value() & { return ok() ? *std::get_if<0>(&value_) : (std::abort(), *std::get_if<0>(&value_)); }
  T&& value() && { return std::move(static_cast<Result&>(*this).value()); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }

  const T& value() const& { return ok() ? *std::get_if<0>(&value_) : (std::abort(), *std::get_if<0>(&value_)); }
  const T& operator*() const& { return value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok(); anything else ends the process.
  const Refusal& refusal() const {
    if (ok()) std::abort();
    return *std::get_if<1>(&value_);
  }

 private:
  std::variant<T, Refusal> value_;
};

}  // namespace distlock
