// SPDX-License-Identifier: Apache-2.0
//
// The first number in a reply of a script: its outcome, as lua/parts/head.lua lists them. A value; any thread.
#pragma once

#include <cstdint>

namespace distlock::store {

enum ReplyCode : int64_t {
  kGranted = 1,
  kQueued = 2,
  kHeld = 3,
  kLate = 4,
  kForeign = 5,
  kQueueFull = 6,
  kReleased = 7,
  kNotHolder = 8,
  kWithdrawn = 9,
  kGone = 10,
  kTended = 11,
  kRenewed = 12,
  kInspected = 13,
  kMismatch = 14,
  kDowngraded = 15,
  kTold = 16,
  kAdopted = 17,
  kCensused = 18,
  kProbed = 19,
  kConfirmed = 20,
  kLow = 21,
  kJoined = 22,
  kYielded = 23,
  kMember = 24,
  kSchema = 25,
};

}  // namespace distlock::store
