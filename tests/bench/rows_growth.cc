// SPDX-License-Identifier: Apache-2.0
// Rows whose cases differ in how much the broker has to remember. They take minutes.
#include <string>

#include "bench/growth.h"
#include "bench/rows.h"

namespace distlock::bench {

std::vector<Section> GrowthSections(const Setup& setup) {
  if (!setup.growth) return {};
  Section leases{"growth-leases",
                 "Pairs of one session, 64 in flight, while the broker holds so many leases",
                 {"µs/pair", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU", "daemon B/lease",
                  "redis B/lease"},
                 {},
                 {},
                 "CPU columns are microseconds per pair.",
                 2};
  for (const size_t n : {1'000, 10'000, 100'000, 1'000'000}) {
    leases.cases.push_back({std::to_string(n), [n](Lab& lab) { return PairsBesideLeases(lab, n); }});
  }
  Section waiters{"growth-waiters",
                  "Hand-off on one lock that so many wait for",
                  {"µs/hand-off", "p50 µs", "p99 µs", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "From release called to grant seen; CPU columns are microseconds per hand-off.",
                  2};
  for (const size_t n : {10, 100, 1'000, 10'000}) {
    waiters.cases.push_back({std::to_string(n), [n](Lab& lab) { return HandoffsBeforeWaiters(lab, n); }});
  }
  return {leases, waiters};
}

}  // namespace distlock::bench
