// SPDX-License-Identifier: Apache-2.0
//
// The state that all objects of a simulation share: time, dice, temper, history and log.
#pragma once

#include <algorithm>
#include <cstdio>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "history/history.h"
#include "simulation/temper.h"
#include "simulation/timeline.h"

namespace distlock::sim {

using std::chrono::hours;

inline constexpr Instant kDawn = Instant(hours(100));

// Operators set and change these while leases are out.
struct Settings {
  Duration longest_ttl{};  // of any request
  FailoverGuard guard = FailoverGuard::kNone;
  Duration fixed_hold_off{};  // 0: as long as the guard and the longest ttl ask for
};

class Env {
 public:
  Env(uint64_t seed_number, bool with_log) : seed(seed_number), dice(seed_number), time(kDawn), logging(with_log) {}

  const uint64_t seed;
  Dice dice;
  Timeline time;
  Temper temper;
  Settings settings;
  History history;
  bool trouble = false;                             // faults may happen now
  Instant all_run_at{};                             // no pause of a process lasts longer
  Instant remembers_until{};                        // servers lose nothing by a restart
  Instant forgot_until{};                           // leases may be out that a server has lost: longest ttls stay
  Instant all_set_at{};                             // brokers differ in their settings, and no primary is replaced
  bool acting = false;                              // clients make new requests now
  std::set<std::string, std::less<>> dead_brokers;  // their ids; a restarted broker has a new one

  // Processes that hear nothing from the others, nor the others from them, until apart_until; clients reach all.
  std::set<int32_t> apart;  // by actor
  Instant apart_until{};
  bool Apart(int32_t a, int32_t b) const {
    const auto is_client = [&](int32_t actor) {
      return history.actors[static_cast<size_t>(actor)].kind == Actor::Kind::kClient;
    };
    return time.now() < apart_until && apart.contains(a) != apart.contains(b) && !is_client(a) && !is_client(b);
  }

  Instant now() const { return time.now(); }
  int64_t now_ns() const { return (now() - kDawn).count(); }
  static int64_t Ns(Instant at) { return (at - kDawn).count(); }

  Duration Delay() {
    if (temper.slow > 0 && trouble && dice.Chance(temper.slow))
      return dice.Between(milliseconds(1), temper.slowest_delay);
    return dice.Between(temper.shortest_delay, temper.usual_delay);
  }

  // Adds to the history, and to the hash.
  void Note(Record record) {
    record.at_ns = now_ns();
    Mix(static_cast<uint64_t>(record.at_ns));
    Mix(static_cast<uint64_t>(record.kind) | static_cast<uint64_t>(record.code) << 8 |
        static_cast<uint64_t>(static_cast<uint32_t>(record.lease)) << 16);
    Mix(record.token);
    history.records.push_back(record);
  }
  void NoteFault(FaultKind kind, int32_t actor, Duration lasts, int32_t lock = -1) {
    Note({.kind = RecordKind::kFault,
          .code = static_cast<uint8_t>(kind),
          .actor = actor,
          .lock = lock,
          .value = lasts.count()});
  }
  void Note(Look look) {
    look.told_ns = now_ns();
    Mix(static_cast<uint64_t>(look.asked_ns));
    Mix(static_cast<uint64_t>(look.told_ns));
    Mix(look.newest_token);
    for (const Look::Holder& one : look.holders) Mix(one.token);
    history.looks.push_back(std::move(look));
  }
  int32_t AddActor(Actor::Kind kind, std::string name) {
    history.actors.push_back({kind, std::move(name)});
    return static_cast<int32_t>(history.actors.size()) - 1;
  }
  // Reports an error that no checker of histories can find.
  void Fail(const std::string& what) {
    if (failure.empty()) failure = what;
    Log([&] { return "FAILED " + what; });
  }
  std::string failure;

  template <typename Text>
  void Log(Text text) {
    if (!logging) return;
    char stamp[32];
    std::snprintf(stamp, sizeof stamp, "%12.6f ", static_cast<double>(now_ns()) / 1e9);
    log.push_back(stamp + text());
  }
  const bool logging;
  std::deque<std::string> log;

  uint64_t hash() const { return hash_; }

 private:
  // FNV-1a over whole words.
  void Mix(uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001B3ULL; }
  uint64_t hash_ = 0xCBF29CE484222325ULL;
};

// Whether a replica may be made the primary before the old one ends. A lease that is shorter than the old one goes on
// could be given to somebody else there while its holder renews it at the new one. What counts only when most servers
// have it does not count at an old primary.
inline bool OldPrimaryEndsFirst(const Env& env) {
  // With a guard, or as a node of a Cluster. With min-replicas it refuses by then, or the new one does.
  const Duration guarded = seconds(3);
  const bool is_guarded = env.temper.guard == FailoverGuard::kMinReplicas;
  const Duration goes_on = is_guarded ? guarded : std::max<Duration>(guarded, env.temper.node_timeout * 3 / 2);
  const std::vector<Duration>& ttls = env.temper.ttls;
  const Duration shortest = std::min(env.settings.longest_ttl, *std::min_element(ttls.begin(), ttls.end()));
  // Each is renewed when a third has passed.
  const bool is_renewed = env.temper.unrenewed < 1;
  return env.settings.guard == FailoverGuard::kConfirmed || !is_renewed || shortest * 2 / 3 > goes_on;
}

}  // namespace distlock::sim
