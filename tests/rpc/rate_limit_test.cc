// SPDX-License-Identifier: Apache-2.0
#include "rpc/rate_limit.h"

#include <gtest/gtest.h>

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RateLimitTest, OneSecondsWorthAtOnceThenTheRate) {
  RateLimit rate(10);
  core::Instant now{seconds(1000)};
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += rate.Take(now);
  EXPECT_EQ(taken, 10);
  EXPECT_GT(rate.Wait(), milliseconds(50));
  EXPECT_TRUE(rate.Take(now + milliseconds(101)));
  EXPECT_FALSE(rate.Take(now + milliseconds(102)));
  RateLimit none(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(none.Take(now));
}

}  // namespace
}  // namespace distlock::rpc
