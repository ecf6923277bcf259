// SPDX-License-Identifier: Apache-2.0
//
// For how long leases may have been granted, as brokers tell each other.
#include "store/redis/asserted_ttls.h"

#include <gtest/gtest.h>

#include <vector>

namespace distlock::store {
namespace {

using core::Duration;
using core::Instant;
using std::chrono::seconds;

class AssertedTtlsTest : public testing::Test {
 protected:
  static constexpr Instant kHere{std::chrono::hours(9)};  // the broker's clock

  AssertedTtls ttls_;
};

TEST_F(AssertedTtlsTest, TheLongestMattersForItsOwnLength) {
  EXPECT_EQ(ttls_.Longest(kHere), Duration::zero());
  ttls_.Hear({seconds(60), seconds(20)}, kHere);
  ttls_.Hear({seconds(15), {}}, kHere);
  EXPECT_EQ(ttls_.Longest(kHere + seconds(40)), seconds(60));
  EXPECT_EQ(ttls_.Longest(kHere + seconds(40) + AssertedTtls::kLater), Duration::zero());
  ttls_.Hear({seconds(15), {}}, kHere + seconds(40));
  EXPECT_EQ(ttls_.Longest(kHere + seconds(51)), seconds(15));
}

TEST_F(AssertedTtlsTest, ALongerAndLaterOneStandsForTheOthers) {
  ttls_.Hear({seconds(15), seconds(3)}, kHere);
  ttls_.Hear({seconds(60), {}}, kHere);
  ttls_.Hear({seconds(30), seconds(3)}, kHere);
  EXPECT_EQ(ttls_.All(kHere), (std::vector<AssertedTtls::Assertion>{{seconds(60), {}}}));
  ttls_.Hear({seconds(-1), {}}, kHere);
  ttls_.Hear({seconds(5), seconds(600)}, kHere);
  EXPECT_EQ(ttls_.All(kHere).size(), 1u);
}

// Each of them is shorter and was said later than those before it.
// Fails when a ttl without room is dropped: a hold-off would be too short for it once the longer ones are over.
TEST_F(AssertedTtlsTest, WhatThereIsNoRoomForTheShortestStandsFor) {
  const auto said = [](int i) { return AssertedTtls::Assertion{seconds(600 - 10 * i), seconds(200 - 20 * i)}; };
  for (int i = 0; i < 10; ++i) ttls_.Hear(said(i), kHere);
  const std::vector<AssertedTtls::Assertion> all = ttls_.All(kHere);
  ASSERT_EQ(all.size(), AssertedTtls::kMost);
  EXPECT_EQ(all.back(), (AssertedTtls::Assertion{said(7).ttl, said(9).age}));
  EXPECT_EQ(all[6], said(6));
  const core::Duration last_ends = said(9).ttl - said(9).age;
  EXPECT_GE(ttls_.Longest(kHere + last_ends), said(9).ttl) << "the longer ones are over";
  ttls_.Hear(said(8), kHere);
  ttls_.Hear(said(9), kHere);
  EXPECT_EQ(ttls_.All(kHere), all);
}

// Brokers that read what the others have read would else say for ever what nobody says any more.
TEST_F(AssertedTtlsTest, AnEchoDoesNotMakeItYounger) {
  ttls_.Hear({seconds(60), {}}, kHere);
  for (int i = 1; i <= 100; ++i) {
    const Instant now = kHere + i * std::chrono::milliseconds(100);
    AssertedTtls::Assertion echo = ttls_.All(now).front();
    echo.age -= std::chrono::milliseconds(900);
    ttls_.Hear(echo, now);
  }
  EXPECT_EQ(ttls_.All(kHere + seconds(10)).front().age, seconds(10));
}

TEST_F(AssertedTtlsTest, AsText) {
  const std::vector<AssertedTtls::Assertion> all{{seconds(60), seconds(1)}, {seconds(15), {}}};
  EXPECT_EQ(AssertedTtls::Text(all), "60000:1000,15000:0");
  EXPECT_EQ(AssertedTtls::Parse("60000:1000,15000:0"), all);
  EXPECT_TRUE(AssertedTtls::Parse("").empty());
  EXPECT_TRUE(AssertedTtls::Parse("60000:1000,x").empty());
  EXPECT_EQ(AssertedTtls::Text({}), "");
}

}  // namespace
}  // namespace distlock::store
