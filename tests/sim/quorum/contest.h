// SPDX-License-Identifier: Apache-2.0
//
// Five brokers of five servers, and a client of each that asks for one lock at the same instant: the votes are split as
// widely as they can be. No faults; clocks are drawn from the seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace distlock::sim::quorum {

inline constexpr size_t kContenders = 5;

struct Contest {
  size_t served = 0;
  size_t refused = 0;
  bool believed_together = false;
  core::Duration longest_trip{};  // a round trip takes half of that to all of it, and three quarters on average
  core::Duration first{};         // from the instant to the first grant
};

// They wait until they are served; delays are drawn from the seed.
Contest RunContest(uint64_t seed);
// They try once, each from beside a server of its own: without chance they would take one vote each for ever.
Contest RunTries(uint64_t seed);

}  // namespace distlock::sim::quorum
