// SPDX-License-Identifier: Apache-2.0
//
// Virtual time: events run in the order of their times, then of their creation. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/types.h"

namespace distlock::sim {

using core::Duration;
using core::Instant;
using core::kNever;

class Timeline {
 public:
  using What = absl::AnyInvocable<void()>;

  explicit Timeline(Instant start) : now_(start) {}

  Instant now() const { return now_; }
  void At(Instant at, What what) {
    if (at == kNever) return;
    events_.push_back({std::max(at, now_), made_++, std::move(what)});
    std::push_heap(events_.begin(), events_.end());
  }
  void After(Duration delay, What what) { At(now_ + delay, std::move(what)); }

  // Runs the events up to `end`, or until done() is true.
  template <typename Done>
  void Run(Instant end, Done done) {
    while (!events_.empty() && events_.front().at <= end) {
      if (done()) return;
      std::pop_heap(events_.begin(), events_.end());
      Event event = std::move(events_.back());
      events_.pop_back();
      now_ = event.at;
      ++run_;
      event.what();
    }
    if (!done()) now_ = std::max(now_, end);
  }

  uint64_t events_run() const { return run_; }

 private:
  struct Event {
    Instant at;
    uint64_t serial;
    What what;
    friend bool operator<(const Event& a, const Event& b) { return a.at != b.at ? a.at > b.at : a.serial > b.serial; }
  };
  Instant now_;
  uint64_t made_ = 0;
  uint64_t run_ = 0;
  std::vector<Event> events_;
};

}  // namespace distlock::sim
