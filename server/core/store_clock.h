// SPDX-License-Identifier: Apache-2.0
//
// What the broker knows about the store's clock. Every reply bounds the offset (store - broker) from both sides: the
// script ran after its command was sent and before its reply was read. The bounds of successive replies are intersected
// (Marzullo's idea with one source) and widened by the drift between them; a reply that cannot be reconciled means that
// the store's clock jumped.
//
// Thread: the shard's. A value.
#pragma once

#include <cstdint>
#include <optional>

#include "core/types.h"

namespace distlock::core {

class StoreClock {
 public:
  explicit StoreClock(uint32_t drift_ppm) : drift_ppm_(drift_ppm) {}

  // Learns from one reply. Returns by how much the store's clock jumped (positive: forward), if it did.
  std::optional<Duration> Learn(Instant sent, Instant received, StoreTime time);

  bool known() const { return known_; }

  // The latest that the store's clock can show at `now`.
  StoreTime Latest(Instant now) const;

  // The broker time by which the store's clock surely shows `time`.
  Instant ShownBy(StoreTime time, Instant now) const;

  // The earliest broker time at which the store's clock can have shown `time`, and never after `now`.
  Instant Earliest(StoreTime time, Instant now) const;

 private:
  Duration High(Instant now) const;
  Duration Low(Instant now) const;
  Duration Widening(Instant now) const;

  uint32_t drift_ppm_;
  bool known_ = false;
  Instant learned_{};
  Duration low_{};  // bounds of the offset at learned_
  Duration high_{};
};

}  // namespace distlock::core
