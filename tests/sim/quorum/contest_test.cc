// SPDX-License-Identifier: Apache-2.0
//
// DISTLOCK_QUORUM_CONTESTS=N runs so many instead of the usual ones.
#include "quorum/contest.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gtest/gtest.h"

namespace distlock::sim::quorum {
namespace {

// In virtual time: the machine's speed does not matter.
TEST(QuorumContest, AllAreServedAndTheFirstWithinThreeRoundTrips) {
  constexpr size_t kUsual = 500;
  const char* const wanted = std::getenv("DISTLOCK_QUORUM_CONTESTS");
  const size_t count = wanted == nullptr ? kUsual : std::strtoull(wanted, nullptr, 10);
  std::vector<double> trips;
  for (size_t seed = 1; seed <= count; ++seed) {
    const Contest contest = RunContest(seed);
    ASSERT_EQ(contest.served, kContenders) << "seed " << seed;
    ASSERT_FALSE(contest.believed_together) << "seed " << seed;
    trips.push_back(static_cast<double>(contest.first.count()) / static_cast<double>(contest.longest_trip.count()));
  }
  std::sort(trips.begin(), trips.end());
  const double p99 = trips[trips.size() * 99 / 100];
  std::printf("%zu contests; first grant after %.2f of the longest round trips (median), %.2f (99 %%), %.2f (most)\n",
              count, trips[trips.size() / 2], p99, trips.back());
  EXPECT_LE(p99, 3.0);
}

TEST(QuorumContest, TriesThatSplitTheVotesAreRepeatedOutOfStep) {
  constexpr size_t kCount = 200;
  size_t without_grant = 0;
  for (size_t seed = 1; seed <= kCount; ++seed) {
    const Contest contest = RunTries(seed);
    ASSERT_EQ(contest.served + contest.refused, kContenders) << "seed " << seed;
    ASSERT_FALSE(contest.believed_together) << "seed " << seed;
    without_grant += contest.served == 0;
  }
  std::printf("%zu of %zu contests of tries without a grant\n", without_grant, kCount);
  EXPECT_LE(without_grant, kCount / 4);
}

}  // namespace
}  // namespace distlock::sim::quorum
