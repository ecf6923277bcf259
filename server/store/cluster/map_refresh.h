// SPDX-License-Identifier: Apache-2.0
//
// When a Cluster is asked for its slots: one question at a time, never two within 100 ms; soon after something showed
// that the map may be old; again and again while a part of the Cluster is not served, at first as often as may be:
// whoever takes the part over is to be known at once; each 10 s in any case. Pure.
//
// Thread: the loop's. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "core/types.h"

namespace distlock::store {

class MapRefresh {
 public:
  static constexpr core::Duration kLeastPause = std::chrono::milliseconds(100);
  // While unserved: at first, and after kSoon; and up to a sixteenth, or as much again, as jitter.
  static constexpr core::Duration kSoonUnserved = std::chrono::milliseconds(100);
  static constexpr core::Duration kSoon = std::chrono::seconds(20);
  static constexpr core::Duration kLongUnserved = std::chrono::milliseconds(200);
  static constexpr core::Duration kLongestBackOff = std::chrono::seconds(1);
  static constexpr core::Duration kUsualPause = std::chrono::seconds(10);

  // `seed`: of the jitter.
  explicit MapRefresh(uint64_t seed) : random_(seed) {}

  // The map may be old.
  void Want(core::Instant now);
  // A question leaves. REQUIRES: now >= due().
  void Asked(core::Instant now);
  // It was answered, by a map that was adopted or not, or could not be. `unserved`: some slots are without a node that
  // can be reached.
  void Answered(core::Instant now, bool adopted, bool unserved);

  // When to ask next; kNever while a question is under way.
  core::Instant due() const { return asking_ ? core::kNever : due_; }
  bool asking() const { return asking_; }

 private:
  core::Duration WhileUnserved(core::Instant now);

  std::minstd_rand random_;
  core::Instant due_{};
  core::Instant asked_at_{};
  std::optional<core::Instant> unserved_since_;
  bool asked_once_ = false;
  bool asking_ = false;
  bool wanted_ = false;  // since the question under way left
  int failures_ = 0;
};

}  // namespace distlock::store
