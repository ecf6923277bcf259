// SPDX-License-Identifier: Apache-2.0
//
// The terms of the core as types: identifiers, times and enumerations. Values only; safe on any thread.
//
// `Instant` is the broker's CLOCK_BOOTTIME, the only clock that the core counts with. `StoreTime` is a stamp of a
// store's wall clock, which the core passes on. Nothing here can read either.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace distlock::core {

// Tag of CLOCK_BOOTTIME. It has no now(): the edges read the clock and pass the time in.
struct BootTime {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  static constexpr bool is_steady = true;
};
using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<BootTime, Duration>;

inline constexpr Instant kNever = Instant::max();

// Microseconds since the epoch by the store's clock; 0 = unknown. For the core a stamp: it is shown to callers and
// given back to the store, and never compared with an Instant.
struct StoreTime {
  int64_t us = 0;
  friend auto operator<=>(const StoreTime&, const StoreTime&) = default;
};
// The year 2112: beyond any clock, and far from an overflow when it is counted in nanoseconds and added to.
inline constexpr StoreTime kMaxStoreTime{int64_t{1} << 52};

// The secret that proves ownership in the store: 128 random or derived bits. Never logged.
using OwnerId = std::array<uint8_t, 16>;

// Derived from a request_id: the caller may have repeated the request through another broker and hold its grant there,
// so whoever gives the request up must not free a lock on its behalf. Random owners never look like this.
inline constexpr uint8_t kRepeatableMark = 0xff;
inline bool IsRepeatable(const OwnerId& owner) { return owner[0] == kRepeatableMark; }

// Marks the owner of a detached lease without a request_id. Owners that are neither this nor repeatable are of streams:
// only the broker that has the stream can tell its client what has become of the lease.
inline constexpr uint8_t kDetachedMark = 0xfd;
inline bool IsDetached(const OwnerId& owner) { return owner[0] == kDetachedMark || IsRepeatable(owner); }

// Marks the owner of an acquire on a stream with a request_id. All tries of the request share the first half; then
// comes the number of the client's session, most significant byte first; the rest is random. So a later try takes over
// the place that an earlier one has in the store's queue, an earlier one that reaches the store late takes none back,
// and whatever is done for one of them later, by whichever broker, touches nothing of the other. Other owners never
// look like this.
inline constexpr uint8_t kTryMark = 0xfe;
inline constexpr size_t kRequestBytes = 8;
inline constexpr size_t kTryBytes = kRequestBytes + 4;
inline bool IsTry(const OwnerId& owner) { return owner[0] == kTryMark; }
inline bool IsSameRequest(const OwnerId& a, const OwnerId& b) {
  return IsTry(a) && std::equal(a.begin(), a.begin() + kRequestBytes, b.begin());
}

// A stream or unary call that listens for answers; unique in the process, never reused. 0 = nobody listens.
using SessionId = uint64_t;
// Chosen by the recipient; unique among its own open requests.
using RequestId = uint64_t;
// One store command in flight; unique per broker core, never reused.
using OpId = uint64_t;

enum class OnDisconnect : uint8_t { kSafe, kRelease, kExpire };
enum class ReleaseOutcome : uint8_t { kReleased, kStillHeld, kAlreadyGone };
enum class LostReason : uint8_t { kExpired, kTaken, kForced, kMaxHold, kDrained, kMoved };

enum class RefusalReason : uint8_t {
  kLockHeld,
  kWaitTimeout,
  kLeaseLost,
  kNotHolder,
  kLimitMismatch,
  kForeignKey,
  kInvalidArgument,
  kNotSupported,
  kQuotaExceeded,
  kStoreFull,
  kStoreUnavailable,
  kQuorumNotReached,
  kDraining,
  kUnauthenticated,
  kPermissionDenied,
  kCancelled,
  kStoreHoldOff,
};
inline constexpr int kRefusalReasonCount = 17;
inline constexpr int kLostReasonCount = 6;

// How a lock is taken: by one holder, by many readers, or `permits` out of `limit` by many.
enum class Mode : uint8_t { kExclusive, kShared, kPermit };
// Whose place in the queue comes first. It counts for the request that names it.
enum class Policy : uint8_t { kFair, kWriterPreferring, kReaderPreferring, kAdaptive };

// The mode and the share of a lock that a request wants. `permits` and `limit` are of kPermit only: 1..limit of limit.
struct Want {
  Mode mode = Mode::kExclusive;
  Policy policy = Policy::kFair;
  uint32_t permits = 1;
  uint32_t limit = 0;
  friend bool operator==(const Want&, const Want&) = default;
};

// Its place is in front of all who are not preferred.
inline bool IsPreferred(const Want& want) {
  return (want.mode == Mode::kExclusive && want.policy == Policy::kWriterPreferring) ||
         (want.mode == Mode::kShared && want.policy == Policy::kReaderPreferring);
}

// A holder or waiter as the store shows it. `info` is what the caller of Acquire passed in, untouched.
struct HolderView {
  OwnerId owner{};  // secret: convert to a public id before it leaves the process. All zero = it is blocked
  uint64_t token = 0;
  StoreTime since;
  Duration held_for{};  // from `since` until the store made this view, both by its clock; negative if that was set back
  Duration ttl{};
  Duration lock_delay{};
  Duration min_hold{};  // 0: it has none, or, of a block, that of a lock_delay
  Duration time_left{};
  uint64_t wanted_by = 0;  // the number of the broker that tells it when somebody wants the lock; 0: it did not ask
  std::string info;
};

}  // namespace distlock::core
