// SPDX-License-Identifier: Apache-2.0
// Rows of contended locks.
#include <string>

#include "bench/broker_load.h"
#include "bench/floors.h"
#include "bench/handoff.h"
#include "bench/readers.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

std::string Count(size_t n) { return std::to_string(n); }

// As many sessions as the readers' rows have, each with a lock of its own.
Sample OwnMutexes(const Lab& lab) {
  const auto load = BrokerSessions(lab.broker(0).target(), kReaders, 1);
  Sample sample = Measure(lab, *load, true);
  sample.values["ops/s"] = 2 * sample.values["pairs/s"];
  return sample;
}

Section HotHandoffs(const Setup& setup) {
  Section section{"handoff-hot",
                  "Hand-off, hot: holders release at once and queue again",
                  {"p50 µs", "p99 µs", "grants/s", "least/most", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "From release called to grant seen. least/most: grants of the party that got fewest, of the one that "
                  "got most. CPU columns are microseconds per grant. Goal with 50: p50 <= 200, p99 <= 500 µs, "
                  "ambitious 110 and 220."};
  const std::string relayed = "one command at a time through a bare relay";
  for (const size_t brokers : {1, 2}) {
    for (const size_t parties : {2, 50}) {
      if (setup.size.smoke && parties > 2) continue;
      const std::string name = Count(parties) + " parties, " + Count(brokers) + (brokers == 1 ? " broker" : " brokers");
      section.cases.push_back({name, [=](Lab& lab) { return HotHandoff(lab, parties, brokers); }});
      section.floors.push_back({name, relayed, "p50 µs", ""});
    }
  }
  section.cases.push_back({relayed, RelayedInTurn});
  return section;
}

Section IdleHandoffs(const Setup&) {
  const std::string relayed = "one command through a bare relay";
  return {.id = "handoff-idle",
          .title = "Hand-off from idle: the waiter has waited 20 to 150 ms",
          .columns = {"p50 µs", "p99 µs"},
          .cases = {{"one broker", [](Lab& lab) { return IdleHandoff(lab, 1); }},
                    {"two brokers", [](Lab& lab) { return IdleHandoff(lab, 2); }},
                    {"one command direct", IdleDirect},
                    {relayed, IdleRelayed}},
          .comparisons = {},
          .notes =
              "The commands come after the same pauses: what this machine takes to wake up. Goal of one broker: "
              "at most 1.15 times the relay's p50, a share of 0.87.",
          .floors = {{"one broker", relayed, "p50 µs", ""}, {"two brokers", relayed, "p50 µs", ""}}};
}

Section Queue(const Setup&) {
  const std::string relayed = "50 times 1 ms and a command through a bare relay";
  return {.id = "queue",
          .title = "One-shot queue: 50 waiters hold 1 ms each",
          .columns = {"makespan ms", "slowest ms"},
          .cases = {{"50 sessions, one broker", [](Lab& lab) { return OneShotQueue(lab); }}, {relayed, RelayedQueue}},
          .comparisons = {},
          .notes =
              "Median and slowest run of a round; order of arrival is checked. A perfect queue needs 50 ms. "
              "Goal: 75, ambitious 62.",
          .floors = {{"50 sessions, one broker", relayed, "makespan ms", ""}}};
}

Section Quiet(const Setup&) {
  return {
      "quiet",
      "What waiting costs: 50 waiters on one held lock",
      {"commands/s", "EVALSHA/s", "daemon CPU %"},
      {{"50 sessions, one broker", [](Lab& lab) { return QuietWaiters(lab); }}},
      {},
      "Redis commands of renewing the holder and tending the queue, those inside scripts counted too. Goal: about 0.",
      1};
}

Section Readers(const Setup& setup) {
  Section section{"rw",
                  "Readers and writers: 64 sessions with one operation in flight, FAIR",
                  {"ops/s", "reader p50 µs", "reader p99 µs", "writer p50 µs", "writer p99 µs", "client CPU",
                   "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "From acquire sent to grant seen, waiting included; an op is an acquire or a release. CPU columns "
                  "are microseconds per pair. Goal of the readers: as many as mutexes."};
  if (!setup.size.smoke) {
    const std::string readers = "64 readers of one lock";
    const std::string mutexes = "64 mutexes, each of one session";
    section.cases.push_back({readers, [](Lab& lab) { return ReadersAndWriters(lab, 1, 0); }});
    section.cases.push_back({mutexes, [](Lab& lab) { return OwnMutexes(lab); }});
    section.floors.push_back({readers, mutexes, "ops/s", ""});
  }
  section.cases.push_back(
      {"90 % readers, 10 % writers, 16 locks", [](Lab& lab) { return ReadersAndWriters(lab, 16, 10); }});
  return section;
}

}  // namespace

std::vector<Section> ContendedSections(const Setup& setup) {
  return {HotHandoffs(setup), IdleHandoffs(setup), Queue(setup), Quiet(setup), Readers(setup)};
}

}  // namespace distlock::bench
