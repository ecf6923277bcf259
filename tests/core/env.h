// SPDX-License-Identifier: Apache-2.0
//
// What everybody in a simulated world shares: its time, dice, store, judge, temper and log.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "judge.h"
#include "model_store.h"
#include "timeline.h"

namespace distlock::core {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Drawn once from the seed.
struct Temper {
  bool calm = true;
  bool gentle = true;        // no fault but a store that is emptied
  int nodes = 1;
  int locks = 1;
  int clients = 1;
  int drift_ppm = 0;         // of the store's clock
  bool trusted = true;
  double slow = 0;           // part of messages that take their time
  Duration slowest{};
  double lost_notices = 0;
  Duration fault_every{};
  std::vector<int> faults;   // kinds that happen here
  Duration validity = seconds(3);
  Duration queue_slot = seconds(30);
  std::vector<Duration> ttls;
};

struct Env {
  Env(uint64_t seed_number, bool with_log) : seed(seed_number), logging(with_log), dice(seed_number), time(Instant(hours(100))) {}

  const uint64_t seed;
  const bool logging;
  Dice dice;
  Timeline time;
  Temper temper;
  bool trouble = false;  // faults may happen now
  Instant store_paused_until{};
  Instant last_trouble{};  // the end of the last thing that went wrong
  std::unique_ptr<ModelStore> store;
  std::unique_ptr<Judge> judge;
  std::string failure;
  std::deque<std::string> log;

  Instant now() const { return time.now(); }

  StoreTime StoreNow() const { return StoreTime{std::chrono::duration_cast<microseconds>(StoreClockAt(now())).count()}; }
  Duration StoreClockAt(Instant at) const {
    const Duration run = at - Instant(hours(100));
    return hours(400'000) + run + run / 1'000'000 * temper.drift_ppm;
  }
  // The instant at which the store's clock shows at least `until`.
  Instant WhenStoreShows(StoreTime until) const {
    const Duration ahead = microseconds(until.us) - StoreClockAt(now());
    return now() + ahead - ahead / 1'000'000 * temper.drift_ppm + microseconds(2);
  }

  Duration Delay() {
    if (dice.Chance(temper.slow)) return dice.Between(milliseconds(1), trouble ? temper.slowest : milliseconds(60));
    return dice.Between(microseconds(20), milliseconds(3));
  }

  void Trouble(Instant until) { last_trouble = std::max(last_trouble, until); }
  void Fail(const std::string& what) {
    if (failure.empty()) failure = what;
    Log([&] { return "FAILED " + what; });
  }
  template <typename Text>
  void Log(Text text) {
    if (!logging) return;
    char stamp[32];
    std::snprintf(stamp, sizeof stamp, "%11.6f ", static_cast<double>((now() - Instant(hours(100))).count()) / 1e9);
    log.push_back(stamp + text());
    if (log.size() > 4000) log.pop_front();
  }
};

}  // namespace distlock::core
