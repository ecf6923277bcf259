// SPDX-License-Identifier: Apache-2.0
//
// The pauses between attempts that fail. They are random, so that clients that failed at the same moment do not come
// back at the same moment, and their bound doubles. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>

#include "distlock/types.h"

namespace distlock::internal {

class Backoff {
 public:
  Backoff(Duration initial, Duration max)
      : initial_ns_(std::clamp<int64_t>(initial.count(), 0, max.count())), max_ns_(max.count()) {}

  // Random between 0 and min(max, initial * 2^n) after n calls since Reset, plus `asked_for`, the pause that the broker
  // has asked for, cut to `max`.
  Duration Next(const std::optional<Duration>& asked_for = std::nullopt) {
    const int64_t random_ns = std::uniform_int_distribution<int64_t>(0, std::max<int64_t>(bound_ns_, 0))(random_);
    bound_ns_ = bound_ns_ > max_ns_ / 2 ? max_ns_ : bound_ns_ * 2;
    const int64_t asked_ns = asked_for ? std::clamp<int64_t>(asked_for->count(), 0, std::max<int64_t>(max_ns_, 0)) : 0;
    return Duration(random_ns > Duration::max().count() - asked_ns ? Duration::max().count() : asked_ns + random_ns);
  }

  void Reset() { bound_ns_ = initial_ns_; }

 private:
  const int64_t initial_ns_;
  const int64_t max_ns_;
  int64_t bound_ns_ = initial_ns_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace distlock::internal
