// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server_clock.h"

#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace distlock::store {
namespace {

using core::Duration;
using core::Instant;
using core::StoreTime;

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

StoreTime At(Duration since_epoch) { return StoreTime{std::chrono::duration_cast<microseconds>(since_epoch).count()}; }

TEST(ServerClock, BoundsHoldWhateverTheDelays) {
  std::mt19937_64 random(11);
  for (int run = 0; run < 200; ++run) {
    ServerClock clock(500);
    const Duration offset = seconds(1'700'000'000);
    const double rate = 1.0 + (static_cast<double>(random() % 1001) - 500.0) / 1e6;
    Instant now(seconds(1000));
    const Instant start = now;
    auto store = [&](Instant at) {
      return At(offset + Duration(static_cast<int64_t>(static_cast<double>((at - start).count()) * rate)));
    };
    for (int i = 0; i < 100; ++i) {
      const Instant sent = now;
      const Instant ran = sent + microseconds(random() % 200'000);
      now = ran + microseconds(random() % 200'000);
      EXPECT_FALSE(clock.Learn(sent, now, store(ran)));
      now += milliseconds(random() % 30'000);
      const Instant later = now + milliseconds(random() % 3'000);
      EXPECT_LE(clock.ShownBy(later), store(later));
      const Instant event = now;
      const StoreTime stamp = store(event);
      now += milliseconds(random() % 2000);
      EXPECT_LE(clock.Earliest(stamp, now), event);
    }
  }
}

TEST(ServerClock, NoticesAJumpBothWays) {
  for (const auto jump : {seconds(5), seconds(-5)}) {
    ServerClock clock(500);
    const Duration offset = seconds(1'700'000'000);
    Instant now(seconds(1000));
    EXPECT_FALSE(clock.Learn(now, now + milliseconds(1), At(offset + now.time_since_epoch())));
    now += seconds(10);
    const auto seen = clock.Learn(now, now + milliseconds(1), At(offset + now.time_since_epoch() + jump));
    ASSERT_TRUE(seen);
    EXPECT_NEAR(static_cast<double>(seen->count()), static_cast<double>(Duration(jump).count()), 2e7);
    now += seconds(1);
    EXPECT_FALSE(clock.Learn(now, now + milliseconds(1), At(offset + now.time_since_epoch() + jump)));
  }
}

// With a bound that is much too early a command would be refused although nobody is late.
TEST(ServerClock, WhatItShowsByAnInstantIsAsLateAsTheLastReplyAllows) {
  ServerClock clock(500);
  const Duration offset = seconds(1'700'000'000);
  const Instant sent(seconds(1000));
  clock.Learn(sent, sent + milliseconds(3), At(offset + sent.time_since_epoch() + milliseconds(1)));
  const Instant at = sent + seconds(10);
  const StoreTime shown = clock.ShownBy(at);
  EXPECT_LE(shown, At(offset + at.time_since_epoch()));
  EXPECT_GE(shown, At(offset + at.time_since_epoch() - milliseconds(3) - milliseconds(10)));
}

TEST(ServerClock, UntilItIsKnownEverythingIsLate) {
  const ServerClock clock(500);
  EXPECT_EQ(clock.ShownBy(Instant(seconds(1000))).us, 1);
}

// For UndefinedBehaviorSanitizer as much as for what it says itself.
TEST(ServerClock, NoTimeOfAHostileStoreOverflows) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> odd = {kMost, kMost - 1, kMost / 1000, kMost / 1000 + 1, int64_t{1} << 52,
                                    1,     0,         -1,           -kMost - 1};
  std::mt19937_64 random(12);
  const auto any = [&] {
    const uint64_t roll = random();
    return StoreTime{roll % 2 == 0 ? odd[roll / 2 % odd.size()] : static_cast<int64_t>(random())};
  };
  for (int run = 0; run < 500; ++run) {
    ServerClock clock(500);
    Instant now(seconds(1000));
    for (int i = 0; i < 20; ++i) {
      const Instant sent = now;
      now += milliseconds(random() % 2'000);
      clock.Learn(sent, now, any());
      now += milliseconds(random() % 100'000);
      const StoreTime stamp = any();
      EXPECT_LE(clock.Earliest(stamp, now), now);
      EXPECT_GT(clock.ShownBy(now), StoreTime{});
    }
  }
}

}  // namespace
}  // namespace distlock::store
