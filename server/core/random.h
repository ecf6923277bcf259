// SPDX-License-Identifier: Apache-2.0
//
// Random numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea, Flood 2014). A value.
#pragma once

#include <cstdint>

namespace distlock::core {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // [0, 1)
  double Next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1.0p-53;
  }

 private:
  uint64_t state_;
};

}  // namespace distlock::core
