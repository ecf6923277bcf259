// SPDX-License-Identifier: Apache-2.0
//
// So many a second, and so many at once. Time is passed in. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>

namespace distlock::acceptor {

using Clock = std::chrono::steady_clock;

class RateLimit {
 public:
  RateLimit(double per_second, double at_once) : per_second_(per_second), at_once_(at_once), left_(at_once) {}

  bool Take(Clock::time_point now) {
    Refill(now);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  bool Has(Clock::time_point now) {
    Refill(now);
    return left_ >= 1;
  }

  // As full as at the start, so that a new one would behave the same.
  bool IsFull(Clock::time_point now) {
    Refill(now);
    return left_ >= at_once_;
  }

 private:
  void Refill(Clock::time_point now) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    left_ = std::min(at_once_, left_ + std::max(0.0, passed) * per_second_);
    last_ = now;
  }

  double per_second_;
  double at_once_;
  double left_;
  Clock::time_point last_{};
};

}  // namespace distlock::acceptor
