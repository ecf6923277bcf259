// SPDX-License-Identifier: Apache-2.0
//
// A 64-bit fingerprint of a sequence of numbers and texts: the same in every process. Not against adversaries. A value.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace distlock::sim {

class Digest {
 public:
  void Add(uint64_t number) { value_ = Mixed(value_ ^ Mixed(number + 0x9E3779B97F4A7C15ULL)); }
  void Add(std::string_view text) {
    Add(text.size());
    while (!text.empty()) {
      uint64_t word = 0;
      const size_t taken = text.size() < sizeof(word) ? text.size() : sizeof(word);
      std::memcpy(&word, text.data(), taken);
      text.remove_prefix(taken);
      Add(word);
    }
  }
  uint64_t value() const { return value_; }

 private:
  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
  static uint64_t Mixed(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  uint64_t value_ = 0;
};

}  // namespace distlock::sim
