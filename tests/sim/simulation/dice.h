// SPDX-License-Identifier: Apache-2.0
//
// All random numbers of a simulation, from its seed, the same on every machine (SplitMix64, Steele et al. 2014).
#pragma once

#include <cstdint>
#include <vector>

#include "core/types.h"

namespace distlock::sim {

using core::Duration;
using core::Instant;

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1; n > 0
  int Roll(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1.0p-53 < p; }
  // low <= result < high; low when the range is empty
  Duration Between(Duration low, Duration high) {
    return high <= low ? low
                       : low + Duration(static_cast<int64_t>(Next() % static_cast<uint64_t>((high - low).count())));
  }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Roll(static_cast<int>(from.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace distlock::sim
