// SPDX-License-Identifier: Apache-2.0
//
// The judge of histories: what must never be found in any of them. Pure and fast (a history of 2000 records in well under a
// millisecond); each call stands alone, so any thread may make it.
#pragma once

#include <string>
#include <vector>

#include "history/history.h"

namespace distlock::sim {

// Invariants:
//   I1   two leases never believe at once, and belief never lasts longer than the store's holding
//   I1'  the fenced register: tokens of accepted writes never fall; who rightly believes is never rejected
//   I2   tokens grow from grant to grant of a lock, and none is given to two leases
//   I3   the store lets a lock go, or others in beside its holder, only after its client has let go, or asked for that
//   I4   first come, first served
//   I5   a free lock with a living waiter is given to one
//   I6   nothing is left in the end
//   I7   a lock whose client or broker died is free again in bounded time
//   I11  after the faults everybody is answered in bounded time
//   I12  a lease has one token
//   I13  nothing is lost without a fault that justifies it
// "history" is a list of records that contradicts itself: whoever made it is wrong, and nothing else was checked.
struct Violation {
  std::string invariant;
  std::string story;  // for people: what is wrong, then the records that matter, a line each
};

// All of them, in the order of the list above; at most kMostViolations of each. Empty: nothing is wrong.
inline constexpr int kMostViolations = 5;
std::vector<Violation> CheckAll(const History& history);

}  // namespace distlock::sim
