// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server_clock.h"

#include <algorithm>

#include "core/clock_margin.h"

namespace distlock::store {

using core::Duration;
using core::Instant;
using core::StoreTime;

namespace {

// Bounded: what a server says of time is not to be trusted.
Duration SinceEpoch(StoreTime time) {
  return std::chrono::microseconds(std::clamp(time, StoreTime{}, core::kMaxStoreTime).us);
}

}  // namespace

Duration ServerClock::Widening(Instant now) const {
  return now > learned_ ? core::Drift(now - learned_, drift_ppm_) : Duration::zero();
}
Duration ServerClock::High(Instant now) const { return high_ + Widening(now); }
Duration ServerClock::Low(Instant now) const { return low_ - Widening(now); }

std::optional<Duration> ServerClock::Learn(Instant sent, Instant received, StoreTime time) {
  const Duration low = SinceEpoch(time) - received.time_since_epoch();
  // The server's clock ticks in whole microseconds.
  const Duration high = SinceEpoch(time) - sent.time_since_epoch() + std::chrono::microseconds(1);
  std::optional<Duration> jump;
  if (!known_) {
    low_ = low;
    high_ = high;
  } else {
    const Duration known_low = Low(received);
    const Duration known_high = High(received);
    if (low > known_high + kTolerance) jump = low - known_high;
    if (high < known_low - kTolerance) jump = high - known_low;
    low_ = std::max(low, known_low);
    high_ = std::min(high, known_high);
    if (jump || low_ > high_) {
      low_ = low;
      high_ = high;
    }
  }
  known_ = true;
  learned_ = received;
  return jump;
}

StoreTime ServerClock::ShownBy(Instant at) const {
  constexpr StoreTime kFirst{1};
  if (!known_) return kFirst;
  const Duration shown = at.time_since_epoch() + Low(at);
  return std::max(kFirst, StoreTime{std::chrono::floor<std::chrono::microseconds>(shown).count()});
}

Duration ServerClock::Ahead(StoreTime time, Instant now) const {
  if (!known_) return Duration::zero();
  return std::max(Duration::zero(), SinceEpoch(time) - (now.time_since_epoch() + High(now)));
}

Instant ServerClock::Earliest(StoreTime time, Instant now) const {
  return std::min(now, Instant(SinceEpoch(time) - High(now)));
}

core::Duration MedianOffset(std::span<core::Duration> offsets) {
  std::ranges::sort(offsets);
  const core::Duration low = offsets[(offsets.size() - 1) / 2];
  return low + (offsets[offsets.size() / 2] - low) / 2;
}

}  // namespace distlock::store
