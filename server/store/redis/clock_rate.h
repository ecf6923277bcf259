// SPDX-License-Identifier: Apache-2.0
//
// How fast one server's clock runs beside the broker's, measured over tens of seconds. A time service that slews a
// clock changes it by so little between two replies that each of them can be reconciled with the one before
// (ServerClock); but keys end earlier all the same. Pure.
//
// Thread: the loop's. A value.
#pragma once

#include <cstdint>
#include <optional>

#include "core/types.h"

namespace distlock::store {

class ClockRate {
 public:
  // Less is not measured: the time that a reply takes says too little of a shorter span.
  static constexpr core::Duration kLeastSpan = std::chrono::seconds(10);
  static constexpr core::Duration kLongestSpan = std::chrono::seconds(30);

  // `drift_ppm`: bound on the clock-rate error of each of the two machines.
  explicit ClockRate(uint32_t drift_ppm) : allowed_ppm_(2.0 * drift_ppm) {}

  // Takes every reply, since a span begins at its quickest one. As of ServerClock::Learn.
  void Learn(core::Instant sent, core::Instant received, core::StoreTime time);
  // The clock was set, or is another's: what was measured says nothing of it.
  void Forget();

  // By how much the server's clock runs faster (negative: slower) than the broker's, at the least, in parts in a
  // million; zero: by no more than the two machines may. Of the latest span that was long enough.
  int64_t slew_ppm() const { return slew_ppm_; }

 private:
  struct Reading {
    core::Instant sent{};
    core::Instant received{};
    core::StoreTime time;
  };
  // Zero: within what is allowed.
  double Excess(const Reading& from, const Reading& to) const;

  double allowed_ppm_;
  std::optional<Reading> from_;  // the most exact one at the beginning of the span
  core::Instant begun_{};
  int64_t slew_ppm_ = 0;
};

}  // namespace distlock::store
