// SPDX-License-Identifier: Apache-2.0
//
// For tests that encode commands without a server's node: the clock of a server that shows the broker's own time, which
// is known exactly and never drifts. Const; any thread.
#pragma once

#include <chrono>

#include "store/redis/server_clock.h"

namespace distlock::sim {

inline const store::ServerClock& KnownClock() {
  static const store::ServerClock clock = [] {
    constexpr core::Instant kAt(std::chrono::microseconds(1));
    store::ServerClock known(0);
    known.Learn(kAt, kAt, {1});
    return known;
  }();
  return clock;
}

}  // namespace distlock::sim
