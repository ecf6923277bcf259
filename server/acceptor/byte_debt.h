// SPDX-License-Identifier: Apache-2.0
//
// How many bytes of a connection belonged to no message, beyond what it may send of such bytes a second.
//
// The kernel counts the bytes that came, other threads count those that were used, and the two counts are never taken
// at one moment. So the used bytes are read before and after, and the unused ones at the moment in between lie within
// two bounds. What the connection may have sent unused is judged by the lower one; what is written off because it has
// been paid for, by the upper one. Otherwise a message that is counted between the two reads would be written off as if
// its bytes had been paid for, and would be owed again at the next look.
//
// Pure: no clock, no threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

class ByteDebt {
 public:
  // At the first look nothing has been paid.
  explicit ByteDebt(int64_t paid_per_second) : per_second_(paid_per_second) {}

  // The least debt, given that `came` bytes had come when `used_before` to `used_after` of them were used.
  int64_t Look(Clock::time_point now, int64_t used_before, int64_t came, int64_t used_after) {
    if (looked_ != Clock::time_point{}) {
      const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - looked_);
      written_off_ += std::min<int64_t>(passed.count(), kLongest) * per_second_ / 1000;
    }
    looked_ = now;
    written_off_ = std::min(written_off_, came - used_before);  // nothing is paid in advance
    return std::max<int64_t>(0, came - used_after - written_off_);
  }

 private:
  static constexpr int64_t kLongest = 60'000;  // ms: keeps the product in range

  const int64_t per_second_;
  int64_t written_off_ = 0;
  Clock::time_point looked_{};
};

}  // namespace distlock::acceptor
