// SPDX-License-Identifier: Apache-2.0
//
// The facts that the core states for metrics and logs. Nothing else acts on it. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

enum class FactKind : uint8_t {
  kGranted,      // value: waited
  kRefused,      // refusal; value: waited
  kAdopted,      // taken over from another stream
  kReleased,     // as asked for; value: held, 0 of a detached lease
  kLost,         // lost; value: held
  kAbandoned,    // its stream ended; value: held
  kMoved,        // another session has taken it over; value: held
  kHolderDied,   // count: leases of a stream, freed before the promise ended; detail: who
  kHandedOff,    // by reply, notice or tend; see handoff
  kAtRisk,       // a renewal failed with time left to try again
  kRenewed,      // count: answered by one command
  kRenewFailed,  // count: left unanswered by one command
  kSessionLapsed,
  kClockStep,    // value: by how much the store's clock jumped
  kAlreadyGone,  // a release found nothing
  kGivenBack,    // a grant that nobody here could use any more
};
enum class HandoffPath : uint8_t { kReply, kNotice, kTend };

// One thing that happened, for metrics and logs.
struct Fact {
  FactKind kind = FactKind::kGranted;
  Duration value{};
  uint32_t count = 1;
  RefusalReason refusal{};
  LostReason lost{};
  HandoffPath handoff{};
  LockName name{};  // empty where it is about no single lock
  std::string detail{};
};

}  // namespace distlock::core
