// SPDX-License-Identifier: Apache-2.0
// Rows of contended locks.
#include <string>

#include "bench/floors.h"
#include "bench/handoff.h"
#include "bench/readers.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

std::string Count(size_t n) { return std::to_string(n); }

Section HotHandoffs(const Setup& setup) {
  Section section{"handoff-hot",
                  "Hand-off, hot: holders release at once and queue again",
                  {"p50 µs", "p99 µs", "grants/s", "least/most", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "From release called to grant seen. least/most: grants of the party that got fewest, of the one that "
                  "got most. CPU columns are microseconds per grant. Goal with 50: p50 <= 200, p99 <= 500 µs, "
                  "ambitious 110 and 220."};
  for (const size_t brokers : {1, 2}) {
    for (const size_t parties : {2, 50}) {
      if (setup.size.smoke && parties > 2) continue;
      section.cases.push_back({Count(parties) + " parties, " + Count(brokers) + (brokers == 1 ? " broker" : " brokers"),
                               [=](Lab& lab) { return HotHandoff(lab, parties, brokers); }});
    }
  }
  return section;
}

Section IdleHandoffs(const Setup&) {
  return {"handoff-idle",
          "Hand-off from idle: the waiter has waited 20 to 150 ms",
          {"p50 µs", "p99 µs"},
          {{"one broker", [](Lab& lab) { return IdleHandoff(lab, 1); }},
           {"two brokers", [](Lab& lab) { return IdleHandoff(lab, 2); }},
           {"one command direct", IdleDirect},
           {"one command through a bare relay", IdleRelayed}},
          {},
          "The commands come after the same pauses: what this machine takes to wake up. Goal: p50 <= 600, p99 <= 1500 "
          "µs, ambitious 400 and 800."};
}

Section Queue(const Setup&) {
  return {"queue",
          "One-shot queue: 50 waiters hold 1 ms each",
          {"makespan ms", "slowest ms"},
          {{"50 sessions, one broker", [](Lab& lab) { return OneShotQueue(lab); }}},
          {},
          "Median and slowest run of a round; order of arrival is checked. A perfect queue needs 50 ms. Goal: 75, "
          "ambitious 62."};
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
                  "are microseconds per pair."};
  if (!setup.size.smoke) {
    section.cases.push_back({"64 readers of one lock", [](Lab& lab) { return ReadersAndWriters(lab, 1, 0); }});
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
