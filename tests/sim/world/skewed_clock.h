// SPDX-License-Identifier: Apache-2.0
//
// The clock of one machine: has a start of its own, runs a little fast or slow against the world's time, and may be
// stepped. A value.
#pragma once

#include "core/types.h"

namespace distlock::sim {

using core::Duration;
using core::Instant;

class SkewedClock {
 public:
  SkewedClock() = default;
  // At `start` of the world it shows `shows`; gains `drift_ppm` microseconds a second.
  SkewedClock(Instant start, Duration shows, int drift_ppm) : start_(start), shows_(shows), drift_ppm_(drift_ppm) {}

  Duration Shows(Instant world) const {
    const Duration run = world - start_;
    return shows_ + run + run / 1'000'000 * drift_ppm_;
  }
  // The first world time at which the clock shows at least `local`.
  Instant When(Duration local) const {
    const auto ahead = static_cast<__int128>((local - shows_).count());
    Instant world = start_ + Duration(static_cast<int64_t>(ahead * 1'000'000 / (1'000'000 + drift_ppm_)));
    while (Shows(world) < local) world += Duration(100);
    return world;
  }
  void Step(Duration by) { shows_ += by; }
  // Another rate from `now` on, without a step.
  void Slew(Instant now, int drift_ppm) { *this = SkewedClock(now, Shows(now), drift_ppm); }

 private:
  Instant start_{};
  Duration shows_{};
  int drift_ppm_ = 0;
};

}  // namespace distlock::sim
