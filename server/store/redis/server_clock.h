// SPDX-License-Identifier: Apache-2.0
//
// One server's clock, as it is known here. Every reply bounds the offset (server - broker) from both sides: the script
// ran after its command was sent and before its reply was read. The bounds of successive replies are intersected
// (Marzullo's idea with one source) and widened by the drift between them; a reply that cannot be reconciled means that
// the clock was set, or that another server has taken the first one's place.
//
// Thread: the loop's. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/types.h"

namespace distlock::store {

class ServerClock {
 public:
  // A clock that was set by less than this is inside every lease's margin and not worth an alarm.
  static constexpr core::Duration kTolerance = std::chrono::milliseconds(2);

  // `drift_ppm`: bound on the clock-rate error of each of the two machines.
  explicit ServerClock(uint32_t drift_ppm) : drift_ppm_(drift_ppm) {}

  // Learns from one reply. Returns by how much the server's clock was set (positive: forward), if it was.
  std::optional<core::Duration> Learn(core::Instant sent, core::Instant received, core::StoreTime time);

  bool known() const { return known_; }

  // A stamp that the server's clock surely shows by `at`, and as late as can be known. What is refused from this stamp
  // on does not run at or after `at`. The first stamp of all while nothing is known.
  core::StoreTime ShownBy(core::Instant at) const;

  // By how much the server's clock is ahead of the broker's, most likely. REQUIRES: known().
  core::Duration Offset(core::Instant now) const { return (Low(now) + High(now)) / 2; }

  // The earliest broker time at which the server's clock can have shown `time`, and never after `now`.
  core::Instant Earliest(core::StoreTime time, core::Instant now) const;

  // By how much `time` is surely later than what the server's clock can show at `now`; zero: it is not. More than
  // kTolerance: the clock was set forward, as Learn would find of a reply with this time.
  core::Duration Ahead(core::StoreTime time, core::Instant now) const;

 private:
  core::Duration High(core::Instant now) const;
  core::Duration Low(core::Instant now) const;
  core::Duration Widening(core::Instant now) const;

  uint32_t drift_ppm_;
  bool known_ = false;
  core::Instant learned_{};
  core::Duration low_{};  // bounds of the offset at learned_
  core::Duration high_{};
};

// The median of several clocks' offsets: by how much each differs from it is its skew. Of an even number it lies half
// way between the middle two. Sorts them. REQUIRES: not empty.
core::Duration MedianOffset(std::span<core::Duration> offsets);

}  // namespace distlock::store
