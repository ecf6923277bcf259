// SPDX-License-Identifier: Apache-2.0
//
// How far two clocks part, and how much earlier a belief in a lease ends for that. Pure.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/types.h"

namespace distlock::core {

// Beyond the drift: scheduling and clock granularity.
inline constexpr Duration kMarginFloor = std::chrono::milliseconds(2);

// By how much two clocks can differ after `time`, when neither is wrong by more than `drift_ppm`.
constexpr Duration Drift(Duration time, uint32_t drift_ppm) {
  return time / 1'000'000 * (2 * static_cast<int64_t>(drift_ppm));
}

// How much earlier than a server's expiry a client's belief in a lease of `ttl` ends.
constexpr Duration Margin(Duration ttl, uint32_t drift_ppm) { return Drift(ttl, drift_ppm) + kMarginFloor; }

}  // namespace distlock::core
