// SPDX-License-Identifier: Apache-2.0
//
// The part of messages.h that is about leases others change: an EXCLUSIVE one that becomes SHARED, and one that an administrator
// takes from its holder. Plain values, in the order of messages.h: callers, store, effects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

// ---- Inputs from callers -------------------------------------------------------------------------------------------

// Makes an EXCLUSIVE lease SHARED, in one step and under the same token; answered Converted or Refused to (session, request). By
// `acquire` of the same session, or, when that is 0, by name and owner.
struct Convert {
  SessionId session = 0;
  RequestId request = 0;
  RequestId acquire = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // as in Release
  std::string info;    // appended to what the holder says of itself
};

// Takes a lock from one holder; answered to (session, request): Released once the store has confirmed that it holds it no more, or
// Refused when that is not known in time. `broker_id`: through which it has the lock; "" when that is not known.
struct ForceRelease {
  SessionId session = 0;
  RequestId request = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // the grant that is meant
  std::string broker_id;
  std::string reason;  // for the holder
};

// ---- Inputs from the store -----------------------------------------------------------------------------------------

// Somebody takes a lock from a holder that has it through this broker.
struct ForceNotice {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  std::string reason;
};

struct ConvertDone {
  enum class Result : uint8_t { kConverted, kNotHolder, kAnotherMode };
  Result result = Result::kNotHolder;
  bool look = false;             // as in GiveBackDone
  std::vector<HolderView> next;  // as in GiveBackDone
};

struct ForceDone {
  // kTold: its broker hears of it, and ends it.
  enum class Result : uint8_t { kReleased, kTold, kGone };
  Result result = Result::kGone;
  bool look = false;             // as in GiveBackDone
  std::vector<HolderView> next;  // as in GiveBackDone
};

// ---- Effects on the store ------------------------------------------------------------------------------------------

struct StoreConvert {
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // only this grant of the owner; 0: any
  std::string info;    // appended
};
// Ends a hold that is not this broker's to end: its own is told, or, when that does not hear, it is released and handed off.
struct StoreForce {
  OpId op = 0;
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // only this grant of the owner; 0: any
  std::string broker_id;
  std::string reason;
};

// ---- Effects on listeners ------------------------------------------------------------------------------------------

struct Converted {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
};

}  // namespace distlock::core
