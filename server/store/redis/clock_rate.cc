// SPDX-License-Identifier: Apache-2.0
#include "store/redis/clock_rate.h"

namespace distlock::store {

using core::Duration;
using core::Instant;
using core::StoreTime;

namespace {

// From the beginning of a span on; the reply that took least time is the first reading.
constexpr Duration kFirstReading = std::chrono::seconds(1);
constexpr double kMillion = 1e6;

double Us(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

double ClockRate::Excess(const Reading& from, const Reading& to) const {
  // Between the two scripts: exactly by the server's clock, at most and at least by the broker's.
  const auto passed = static_cast<double>(to.time.us - from.time.us);
  const double most = Us(to.received - from.sent), least = Us(to.sent - from.received);
  const double faster = (passed - 1 - most) / most * kMillion;
  if (faster > allowed_ppm_) return faster;
  const double slower = (least - passed - 1) / least * kMillion;
  return slower > allowed_ppm_ ? -slower : 0;
}

void ClockRate::Learn(Instant sent, Instant received, StoreTime time) {
  const Reading reading{sent, received, time};
  const auto restart = [&] {
    from_ = reading;
    begun_ = received;
  };
  if (!from_) return restart();
  const Duration span = received - begun_;
  if (span < kFirstReading && received - sent < from_->received - from_->sent) from_ = reading;
  if (span < kLeastSpan || sent <= from_->received) return;
  const double excess = Excess(*from_, reading);
  if (excess == 0 && span < kLongestSpan) return;
  slew_ppm_ = static_cast<int64_t>(excess);
  restart();
}

void ClockRate::Forget() {
  from_.reset();
  slew_ppm_ = 0;
}

}  // namespace distlock::store
