// SPDX-License-Identifier: Apache-2.0
//
// The clock of one machine: has a start of its own, runs a little fast or slow against the simulation's time, and may
// be stepped. A value.
#pragma once

#include "core/types.h"

namespace distlock::sim {

using core::Duration;
using core::Instant;

class SkewedClock {
 public:
  SkewedClock() = default;
  // At `start` of the simulation it shows `shows`; gains `drift_ppm` microseconds a second.
  SkewedClock(Instant start, Duration shows, int drift_ppm) : start_(start), shows_(shows), drift_ppm_(drift_ppm) {}

  Duration Shows(Instant simulation) const {
    const Duration run = simulation - start_;
    return shows_ + run + run / 1'000'000 * drift_ppm_;
  }
  // The first simulation time at which the clock shows at least `local`.
  Instant When(Duration local) const {
    const auto ahead = static_cast<__int128>((local - shows_).count());
    Instant simulation = start_ + Duration(static_cast<int64_t>(ahead * 1'000'000 / (1'000'000 + drift_ppm_)));
    while (Shows(simulation) < local) simulation += Duration(100);
    return simulation;
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
