// SPDX-License-Identifier: Apache-2.0
#include "backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace distlock::internal {
namespace {

using std::chrono::milliseconds;

TEST(BackoffTest, BoundsDoubleUpToTheLargestAndPausesAreRandom) {
  Backoff backoff(milliseconds(50), milliseconds(300));
  std::set<Duration> seen;
  for (int round = 0; round < 200; ++round) {
    for (const int bound : {50, 100, 200, 300, 300}) {
      const Duration pause = backoff.Next();
      EXPECT_GE(pause, Duration(0));
      EXPECT_LE(pause, milliseconds(bound));
      seen.insert(pause);
    }
    backoff.Reset();
  }
  EXPECT_GT(seen.size(), 900u);
  EXPECT_GT(*seen.rbegin(), milliseconds(200));
}

TEST(BackoffTest, WhatTheBrokerAsksForIsAddedUpToTheLargest) {
  Backoff backoff(milliseconds(50), milliseconds(300));
  EXPECT_GE(backoff.Next(milliseconds(200)), milliseconds(200));
  const Duration pause = backoff.Next(std::chrono::hours(1));
  EXPECT_GE(pause, milliseconds(300));
  EXPECT_LE(pause, milliseconds(600));
}

TEST(BackoffTest, EndlessOptionsAreNoOverflow) {
  Backoff backoff(std::chrono::hours(24 * 365 * 200), Duration::max());
  for (int i = 0; i < 70; ++i) EXPECT_GE(backoff.Next(Duration::max()), Duration(0));
  Backoff none(Duration(0), Duration(0));
  EXPECT_EQ(none.Next(), Duration(0));
}

}  // namespace
}  // namespace distlock::internal
