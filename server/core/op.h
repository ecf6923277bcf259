// SPDX-License-Identifier: Apache-2.0
//
// A store command in flight, and the caller to whom an answer goes. Plain records.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

// Names the receiver of an answer. session 0: nobody is to be told.
struct Recipient {
  SessionId session = 0;
  RequestId request = 0;
};

class Part;

// The store answers each command exactly once, so an entry needs no deadline of its own.
struct Op {
  Part* sender = nullptr;  // gets the answer
  Instant sent{};
  Instant runs_until{};           // acquire: its run_before
  OwnerId owner{};                // acquire, release, wanted
  uint64_t waiter = 0;            // acquire: serial of the waiter or bundle that asked
  LockName name{};                // all but renewals and acquire all
  std::vector<LockName> names{};  // acquire all
  Recipient recipient{};          // renew call, downgrade, force, adopt
  std::vector<OwnerId> owners{};  // renew, acquire all
};

}  // namespace distlock::core
