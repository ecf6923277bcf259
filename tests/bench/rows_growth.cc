// SPDX-License-Identifier: Apache-2.0
// Rows whose cases differ in the number of leases or waiters of the broker. They take minutes.
#include <string>

#include "bench/growth.h"
#include "bench/rows.h"

namespace distlock::bench {

std::vector<Section> GrowthSections(const Setup& setup) {
  if (!setup.growth) return {};
  Section leases{
      "growth-leases",
      "Pairs of one session, 64 in flight, while others hold so many leases",
      {"µs/pair", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU", "daemon B/lease", "redis B/lease"},
      {},
      {},
      "CPU columns are microseconds per pair. A session holds 10 000 leases at most. Of the first leases, memory is "
      "mostly what a broker needs once.",
      2};
  for (const size_t n : {1'000, 10'000, 100'000, 1'000'000}) {
    leases.cases.push_back({std::to_string(n), [n](Lab& lab) { return PairsBesideLeases(lab, n); }});
  }
  Section session{"growth-session",
                  "Pairs of one session, 64 in flight, that holds so many leases itself",
                  {"µs/pair", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "CPU columns are microseconds per pair. The limit of leases per session is raised.",
                  2};
  for (const size_t n : {1'000, 10'000, 100'000}) {
    session.cases.push_back({std::to_string(n), [n](Lab& lab) { return PairsOfHolder(lab, n); }});
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
  return {leases, session, waiters};
}

}  // namespace distlock::bench
