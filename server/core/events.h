// SPDX-License-Identifier: Apache-2.0
//
// The events that the core tells callers. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/holder_list.h"
#include "core/lock_name.h"
#include "core/lock_view.h"
#include "core/types.h"

namespace distlock::core {

struct Queued {
  uint32_t position = 0;
  std::vector<HolderView> holders;
};

struct Granted {
  LockName name{};
  Mode mode = Mode::kExclusive;
  OwnerId owner{};
  uint64_t token = 0;
  StoreTime since{};
  Duration valid_for{};  // no longer than is safe by the client's clock; see proto/distlock/v1/session.md
  uint64_t echo_seq = 0;
  std::optional<Duration> since_granted;  // of a Hold; as in Renewed
  Duration ttl{};
  Duration waited{};  // shortened, as valid_for
  uint32_t hold_count = 1;
  uint32_t replicas = 0;  // that have confirmed the grant
};

struct Refused {
  RefusalReason reason = RefusalReason::kStoreUnavailable;
  std::string cause{};  // facts for the message; "" when the reason says all
  Duration retry_after{};
  Duration waited{};
  HolderList holders{};
  uint32_t queue_length = 0;
  LockName about{};  // of several locks, the one that was not to be had; else empty
};

// Sent under the release's id, and also under the acquire's id when somebody else than its session released it, or when
// a release by owner ended a lease that was taken more than once.
struct Released {
  ReleaseOutcome outcome = ReleaseOutcome::kReleased;
  LockName name{};
  OwnerId owner{};
  uint64_t token = 0;
};

struct RenewDone {
  Duration valid_for{};
  Duration ttl{};
};

struct LeaseLimit {
  RequestId acquire = 0;
  Duration valid_for{};
};

struct HeartbeatAck {
  uint64_t seq = 0;
  Duration valid_for{};
  std::vector<LeaseLimit> limits{};
};

struct Renewed {
  LockName name{};
  OwnerId owner{};
  uint64_t token = 0;
  Duration since_granted{};  // by a clock that is not slower than the client's
  Duration valid_for{};
};

struct AtRisk {
  LockName name{};
  OwnerId owner{};
  uint64_t token = 0;
  Duration since_granted{};  // as in Renewed
  Duration valid_for{};
  std::string cause{};
};

struct Lost {
  LockName name{};
  OwnerId owner{};
  uint64_t token = 0;
  LostReason reason = LostReason::kExpired;
  std::string cause{};
};

// Somebody waits for the lock, or was just refused it. A hint.
struct Wanted {
  LockName name{};
  OwnerId owner{};
  uint64_t token = 0;
};

struct Draining {
  Duration time_left{};
};

// A lock that is watched was at some moment between the look's sending and its answer.
struct Changed {
  LockView view;
};

struct Downgraded {
  LockName name{};
  OwnerId owner{};
  uint64_t token = 0;
};

// The core wants the stream finished; every event before it comes first. The stream still answers with StreamEnded.
enum class StreamEnd : uint8_t {
  kGoodbye,     // all leases are on their way back
  kLapsed,      // no heartbeat for a whole validity
  kDrained,     // the broker's drain timeout passed
  kHolderDied,  // the process that it was opened for has ended
};

struct EndStream {
  StreamEnd why = StreamEnd::kGoodbye;
};

using Event = std::variant<Queued, Granted, Refused, Released, RenewDone, HeartbeatAck, Renewed, AtRisk, Lost, Draining,
                           Changed, Downgraded, Wanted, EndStream>;

struct Notify {
  SessionId session = 0;
  RequestId request = 0;  // 0 for HeartbeatAck, Draining and EndStream
  Event event;
};

}  // namespace distlock::core
