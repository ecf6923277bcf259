// SPDX-License-Identifier: Apache-2.0
//
// Five brokers of five servers, and a waiter of each that asks for one lock at the same instant: the votes are split as
// widely as they can be. No faults; clocks and delays are drawn from the seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace distlock::sim::quorum {

inline constexpr size_t kContenders = 5;

struct Contest {
  size_t served = 0;
  bool believed_together = false;
  core::Duration longest_trip{};  // a round trip takes half of that to all of it, and three quarters on average
  core::Duration first{};         // from the instant to the first grant
};

Contest RunContest(uint64_t seed);

}  // namespace distlock::sim::quorum
