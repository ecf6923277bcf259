// SPDX-License-Identifier: Apache-2.0
//
// Whether more commands to the store would only wait for it. Then mail waits in the broker instead, where heartbeats
// and renewals pass it; on the connection to the store nothing can. As many commands may be unanswered as are answered
// without a queue: one more with each answer that is fast, fewer with each that has waited.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <utility>

#include "core/types.h"

namespace distlock::shard {

class StorePace {
 public:
  // So many unanswered commands keep any store at work.
  static constexpr size_t kFew = 128;
  static constexpr size_t kMost = 4096;
  // Answers that come so much later than the fastest of late have waited for others.
  static constexpr core::Duration kWaits = std::chrono::milliseconds(20);

  bool IsBusy(size_t unanswered) const { return unanswered >= window_; }

  void Answered(core::Instant now, core::Duration took) {
    fastest_ = std::min(fastest_, took);
    if (took - kWaits > std::min(fastest_, before_)) {
      window_ = std::max(kFew, window_ - window_ / 16);
    } else {
      window_ = std::min(kMost, window_ + 1);
    }
    if (now < until_) return;
    before_ = std::exchange(fastest_, core::Duration::max());
    until_ = now + kPeriod;
  }

 private:
  static constexpr core::Duration kPeriod = std::chrono::seconds(10);

  size_t window_ = kFew;
  core::Duration fastest_ = core::Duration::max();  // answer of this period
  core::Duration before_ = std::chrono::hours(1);   // the same, of the period before
  core::Instant until_{};                           // the end of this period
};

}  // namespace distlock::shard
