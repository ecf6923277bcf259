// SPDX-License-Identifier: Apache-2.0
//
// The words of the client library: what can be asked for, what may come back instead of a lock, how a lock ends.
// Plain values, free of gRPC and protobuf; any thread may use its own copy. Names and numbers of RefusalReason below
// 100 are those of the wire (proto/distlock/v1/lock.proto); those from 100 on are made by this library.
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

// What the broker does with a lease whose stream broke. See design: SAFE waits until this client cannot believe any
// more.
enum class OnDisconnect { kSafe = 1, kRelease = 2, kExpire = 3 };

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
  kUnreachable = 100,    // no broker answered in time; see ClientOptions::unreachable_timeout
  kClientClosed = 101,   // the Client was destroyed first
  kWouldDeadlock = 102,  // a blocking call was made from one of this library's own callbacks
};

// The wire name, e.g. "LOCK_HELD".
std::string_view Name(RefusalReason reason);

// How a lock is taken: by a Mutex or a writer, by a reader, or by a Semaphore.
enum class LockMode { kExclusive = 1, kShared = 2, kPermit = 3 };

// The wire name, e.g. "SHARED".
std::string_view Name(LockMode mode);

// Who has a lock. Never contains a secret.
struct Holder {
  std::string holder_id;
  std::string owner;
  std::map<std::string, std::string> metadata;
  LockMode mode = LockMode::kExclusive;
  uint32_t permits = 0;  // kPermit only
  uint64_t fencing_token = 0;
  std::chrono::system_clock::time_point since;  // by the store's clock
  Duration time_left{0};
  Duration ttl{0};
  std::string broker_id;
  bool blocked = false;  // nobody holds it: a lock_delay is running
};

struct FieldProblem {
  std::string field;
  std::string description;
};

struct Refusal {
  RefusalReason reason = RefusalReason::kUnspecified;
  std::string message;  // names the value that was wrong and what to do next
  std::optional<Duration> retry_after;
  Duration waited{0};
  std::vector<Holder> holders;  // as far as known, at most 16
  uint32_t queue_length = 0;
  std::vector<FieldProblem> field_problems;
};

// The place in the queue, told once when it is taken.
struct QueuedInfo {
  uint32_t position = 0;  // how many wait in front
  std::vector<Holder> holders;
};

// Who goes next when several wait; it counts for the request that names it.
enum class QueuePolicy {
  kDefault = 0,           // the namespace's, which is kFair
  kFair = 1,              // order of arrival; neighbouring readers share
  kWriterPreferring = 2,  // waiting writers first
  kReaderPreferring = 3,  // readers enter whenever no writer holds
  kAdaptive = 4,          // newcomers may take a free lock until somebody has waited for 100 ms
};

struct LockOptions {
  std::string lock_namespace;        // "" = "default"
  std::optional<Duration> ttl;       // unset: 15 s. What a crash of the broker costs
  std::optional<Duration> max_wait;  // of the plain waits, as Lock(): unset waits until granted, 0 is one try
  Duration max_hold{0};              // 0: none; else the lock ends this long after its grant
  Duration lock_delay{0};            // after an abnormal end what it held stays taken for this long
  OnDisconnect on_disconnect = OnDisconnect::kSafe;
  QueuePolicy policy = QueuePolicy::kDefault;
  std::string owner;                            // label shown to others, up to 256 bytes
  std::map<std::string, std::string> metadata;  // shown to others, up to 1 KiB
  // Whoever has it already, through the same client and under the same non-empty owner, gets it again at once: another
  // Guard with the same token and a hold_count one greater. The lock is free when the last of these guards is released;
  // ttl, max_hold, lock_delay and on_disconnect stay those of the first. Not for MultiLock.
  bool reentrant = false;
  // Told when an acquire has to queue. Runs on a thread of the library: it must not block.
  std::function<void(const QueuedInfo&)> on_queued;
};

// Where a held lock stands. kLost and kReleased are final.
enum class LockState {
  kHeld,
  kAtRisk,  // renewals or heartbeats fail, the deadline has not passed: finish quickly
  kLost,
  kReleased,
};

// How a lock ended. The broker's own words first, then what the client saw for itself.
enum class EndCause {
  kNotEnded = 0,
  kExpired = 1,       // the broker could not renew it in time
  kTaken = 2,         // the store no longer knows it, or knows another holder
  kForced = 3,        // an administrator released it
  kMaxHold = 4,       // LockOptions::max_hold passed
  kDrained = 5,       // the broker shut down
  kReleased = 6,      // given back: by the guard, or by somebody who knows its lease_id
  kLapsed = 7,        // nothing heard from the broker until the client's own deadline
  kDisconnected = 8,  // the stream to the broker ended
  kClientClosed = 9,  // the Client was destroyed
};

std::string_view Name(EndCause cause);
std::string_view Name(LockState state);

enum class ReleaseOutcome {
  kReleased,     // it was ours until now
  kStillHeld,    // reentrant: other guards of ours still have it
  kAlreadyGone,  // it had ended before; nothing was changed
  kUnknown,      // no answer came. The broker frees it anyway, at the latest when its ttl ends
};

std::string_view Name(ReleaseOutcome outcome);

// A T, or the reason why not. Lock outcomes are data: nothing here throws.
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

  // REQUIRES: !ok(); anything else ends the process.
  const Refusal& refusal() const {
    if (ok()) std::abort();
    return *std::get_if<1>(&value_);
  }

 private:
  std::variant<T, Refusal> value_;
};

}  // namespace distlock
