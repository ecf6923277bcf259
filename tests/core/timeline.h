// SPDX-License-Identifier: Apache-2.0
//
// Virtual time for simulated worlds: events in order of their instant, then of their making; dice that fall alike on every
// machine; and a log that costs nothing unless it is wanted. One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "core/types.h"

namespace distlock::core {

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x1234567) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1
  int Roll(int n) { return static_cast<int>(Next() % static_cast<uint64_t>(n)); }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1.0p-53 < p; }
  Duration Between(Duration low, Duration high) {
    return high <= low ? low : low + Duration(static_cast<int64_t>(Next() % static_cast<uint64_t>((high - low).count())));
  }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Roll(static_cast<int>(from.size())))];
  }

 private:
  uint64_t state_;
};

class Timeline {
 public:
  explicit Timeline(Instant start) : now_(start) {}

  Instant now() const { return now_; }
  void At(Instant at, std::function<void()> what) { events_.push({std::max(at, now_), made_++, std::move(what)}); }
  void After(Duration delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }

  // Runs what is due until `end`, or until done() says so.
  template <typename Done>
  void Run(Instant end, Done done) {
    while (!events_.empty() && events_.top().at <= end) {
      if (done()) return;
      const auto what = std::move(const_cast<Event&>(events_.top()).what);  // NOLINT: popped in the next line
      now_ = events_.top().at;
      events_.pop();
      what();
    }
    if (!done()) now_ = std::max(now_, end);
  }

  uint64_t made() const { return made_; }

 private:
  struct Event {
    Instant at;
    uint64_t serial;
    std::function<void()> what;
    friend bool operator<(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.serial > b.serial;
    }
  };
  Instant now_;
  uint64_t made_ = 0;
  std::priority_queue<Event> events_;
};

}  // namespace distlock::core
