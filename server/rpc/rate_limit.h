// SPDX-License-Identifier: Apache-2.0
//
// A token bucket: `per_second` on the average, one second's worth at once. Time is passed in. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/types.h"

namespace distlock::rpc {

class RateLimit {
 public:
  // 0: no limit.
  explicit RateLimit(uint32_t per_second) : per_second_(per_second), tokens_(per_second) {}

  bool Take(core::Instant now) {
    if (per_second_ == 0) return true;
    Refill(now);
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

  // Takes a token for a command that cannot be refused. The bucket may go below zero, down to minus one second's worth.
  void Charge(core::Instant now) {
    if (per_second_ == 0) return;
    Refill(now);
    tokens_ = std::max<double>(tokens_ - 1, -static_cast<double>(per_second_));
  }

  // True when the bucket is as full as at the start, so that a new one would behave the same.
  bool IsFull(core::Instant now) {
    Refill(now);
    return tokens_ >= per_second_;
  }

  // After a refusal: the time until the next Take succeeds.
  core::Duration Wait() const {
    return std::chrono::duration_cast<core::Duration>(std::chrono::duration<double>((1 - tokens_) / per_second_));
  }

 private:
  void Refill(core::Instant now) {
    const double passed = std::chrono::duration<double>(now - last_).count();
    tokens_ = std::min<double>(per_second_, tokens_ + std::max(0.0, passed) * per_second_);
    last_ = now;
  }

  const uint32_t per_second_;
  double tokens_;
  core::Instant last_{};
};

}  // namespace distlock::rpc
