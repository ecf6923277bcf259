// SPDX-License-Identifier: Apache-2.0
//
// When, and for how long, a server grants nobody new a lock.
#include "store/redis/census.h"

#include <gtest/gtest.h>

namespace distlock::store {
namespace {

using core::Duration;
using core::StoreTime;
using std::chrono::seconds;
using Guard = Census::Guard;
using Kind = HoldOffOptions::Kind;

constexpr Duration kTtl = seconds(30);
constexpr int64_t kNow = 1'700'000'000'000'000;
const core::OwnerId kOwner{7};
const std::string kOpen = "9007199254740991;9007199254740991;0";

HoldOffOptions Auto(bool can_fail_over = true, int nodes = 0) {
  return {.kind = Kind::kAuto, .longest_ttl = kTtl, .nodes = nodes, .can_fail_over = can_fail_over};
}

StoreTime After(Duration time) { return {kNow + std::chrono::duration_cast<std::chrono::microseconds>(time).count()}; }

struct GuardCase {
  std::string name;
  HoldOffOptions options;
  int wait_replicas = 0;
  CensusFacts facts;
  Guard guard;
  Duration hold_off;
};

class CensusGuard : public testing::TestWithParam<GuardCase> {};

TEST_P(CensusGuard, DecidesHowLong) {
  Census census(GetParam().options, GetParam().wait_replicas);
  CensusFacts facts = GetParam().facts;
  facts.identity = "a:1";
  census.Meet(facts);
  EXPECT_EQ(census.guard(), GetParam().guard);
  EXPECT_EQ(census.Next().hold_off, GetParam().hold_off);
  EXPECT_EQ(census.Next().confirm, GetParam().guard != Guard::kConfirmed);
}

INSTANTIATE_TEST_SUITE_P(
    All, CensusGuard,
    testing::Values(
        GuardCase{"one_server", Auto(false), 0, {}, Guard::kAlone, kTtl},
        GuardCase{"one_that_appends_always", Auto(false), 0, {.aof_always = true}, Guard::kNothingForgotten, {}},
        GuardCase{"one_that_appends_always_and_was_promoted",
                  Auto(true, 3),
                  0,
                  {.aof_always = true, .promoted = true},
                  Guard::kNone,
                  kTtl + seconds(12)},
        // Its replicas may not have come back yet.
        GuardCase{"alone_behind_sentinels", Auto(true), 0, {}, Guard::kNone, kTtl + seconds(12)},
        GuardCase{"most_confirm", Auto(true, 3), 1, {.replicas = 2}, Guard::kConfirmed, kTtl},
        GuardCase{"half_confirm", Auto(true, 4), 1, {.replicas = 2}, Guard::kNone, kTtl + seconds(12)},
        GuardCase{"most_confirm_of_those_seen", Auto(true), 1, {.replicas = 2}, Guard::kNone, kTtl + seconds(12)},
        GuardCase{"more_are_seen_than_were_told", Auto(true, 3), 1, {.replicas = 4}, Guard::kNone, kTtl + seconds(12)},
        GuardCase{"min_replicas",
                  Auto(true, 3),
                  0,
                  {.replicas = 2, .min_replicas = 1, .max_lag = seconds(10)},
                  Guard::kMinReplicas,
                  kTtl + seconds(11)},
        GuardCase{"too_few_min_replicas",
                  Auto(true, 5),
                  0,
                  {.min_replicas = 1, .max_lag = seconds(10)},
                  Guard::kNone,
                  kTtl + seconds(12)},
        GuardCase{"fixed", {.kind = Kind::kFixed, .fixed = seconds(7)}, 0, {}, Guard::kAlone, seconds(7)}),
    [](const auto& one) { return one.param.name; });

class CensusTest : public testing::Test {
 protected:
  static Census::Count Counted(Duration at, Duration since, Duration hold_off = kTtl) {
    return {.time = After(at), .since = After(since), .hold_off = hold_off, .longest_ttl = kTtl};
  }
  static std::string Argument(Duration since, Duration until, bool confirmed = false) {
    return std::to_string(After(since).us) + ";" + std::to_string(After(until).us) + (confirmed ? ";1" : ";0");
  }

  Census census_{Auto(false), 0};
};

TEST_F(CensusTest, OffHoldsNobodyOff) {
  const Census off({}, 0);
  EXPECT_FALSE(off.on());
  EXPECT_FALSE(off.holds_off());
  EXPECT_EQ(off.ScriptArgument(kOwner), "0");
}

TEST_F(CensusTest, NobodyIsGrantedALockBeforeTheFirstCountNorUntilTheEnd) {
  EXPECT_EQ(census_.ScriptArgument(kOwner), kOpen);
  census_.Meet({.identity = "a:1"});
  EXPECT_EQ(census_.ScriptArgument(kOwner), kOpen);
  EXPECT_EQ(census_.Left(After({})), Duration::max());
  census_.OnCount(Counted(seconds(1), {}));
  EXPECT_EQ(census_.ScriptArgument(kOwner), Argument({}, kTtl));
  EXPECT_EQ(census_.Left(After(seconds(1))), kTtl - seconds(1));
  census_.OnCount(Counted(kTtl - Duration(1000), {}));
  EXPECT_TRUE(census_.holds_off());
  census_.OnCount(Counted(kTtl, {}));
  EXPECT_EQ(census_.ScriptArgument(kOwner), "0");
}

TEST_F(CensusTest, ALongerHoldOffOfAnotherBrokerCounts) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted({}, {}, 2 * kTtl));
  EXPECT_EQ(census_.ScriptArgument(kOwner), Argument({}, 2 * kTtl));
  census_.OnCount(Counted({}, {}, seconds(1)));
  EXPECT_EQ(census_.ScriptArgument(kOwner), Argument({}, kTtl));
}

TEST_F(CensusTest, AReconnectToTheSameDataKeepsWhatIsKnownAndAnotherIdentityForgetsIt) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted({}, {}));
  census_.OnRenewed(kOwner, After(seconds(1)));
  census_.Meet({.identity = "a:1"});
  EXPECT_EQ(census_.Next().known_since, After({}));
  EXPECT_TRUE(census_.Confirms(kOwner));
  census_.Meet({.identity = "a:2"});
  EXPECT_EQ(census_.ScriptArgument(kOwner), kOpen);
  EXPECT_EQ(census_.Next().known_since, StoreTime{});
  EXPECT_FALSE(census_.Confirms(kOwner));
}

// The replica that confirms may have begun to follow after the first census.
TEST_F(CensusTest, WithReplicasItCountsFromTheCensusAfterTheyConfirmed) {
  Census census(Auto(true, 3), 1);
  census.Meet({.identity = "a:1", .replicas = 1});
  census.OnReplicas(1);
  EXPECT_FALSE(census.Next().confirm) << "no marker was written that they could have confirmed";
  census.OnCount({.time = After({}), .since = {}, .hold_off = kTtl, .longest_ttl = kTtl});
  EXPECT_EQ(census.ScriptArgument(kOwner), kOpen);
  census.OnReplicas(0);
  EXPECT_TRUE(census.AwaitsReplicas());
  EXPECT_FALSE(census.Next().confirm);
  census.OnReplicas(1);
  EXPECT_TRUE(census.Next().confirm);
  EXPECT_EQ(census.ScriptArgument(kOwner), kOpen) << "it counts from the next one";
  census.OnCount(Counted(seconds(5), seconds(5)));
  EXPECT_EQ(census.ScriptArgument(kOwner), Argument(seconds(5), seconds(5) + kTtl));
  census.Meet({.identity = "b:1", .replicas = 1});
  EXPECT_TRUE(census.AwaitsReplicas());
}

TEST_F(CensusTest, OnlyWhoWasRenewedSinceTheCensusIsConfirmed) {
  census_.Meet({.identity = "a:1"});
  census_.OnRenewed(kOwner, After(seconds(1)));
  EXPECT_FALSE(census_.Confirms(kOwner)) << "since when is not known yet";
  census_.OnCount(Counted(seconds(2), seconds(2)));
  census_.OnRenewed(kOwner, StoreTime{After(seconds(2)).us - 1});
  EXPECT_FALSE(census_.Confirms(kOwner));
  census_.OnRenewed(kOwner, After(seconds(2)));
  EXPECT_EQ(census_.ScriptArgument(kOwner), Argument(seconds(2), seconds(2) + kTtl, true));
  EXPECT_EQ(census_.ScriptArgument({}), Argument(seconds(2), seconds(2) + kTtl));
  census_.OnCount(Counted(seconds(2) + kTtl, seconds(2)));
  EXPECT_FALSE(census_.Confirms(kOwner));
}

TEST_F(CensusTest, AClockThatIsSetForwardDoesNotEndItEarly) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted(seconds(1), {}));
  census_.OnClockStep(seconds(60));
  EXPECT_EQ(census_.ScriptArgument(kOwner), Argument(seconds(60), seconds(60) + kTtl));
  EXPECT_EQ(census_.Next().known_since, After({})) << "as the marker has it, for those who did not see the step";
  census_.OnCount(Counted(seconds(62), {}));
  EXPECT_EQ(census_.ScriptArgument(kOwner), Argument(seconds(60), seconds(60) + kTtl));
  census_.OnClockStep(-seconds(60));
  EXPECT_TRUE(census_.holds_off());
  EXPECT_EQ(census_.until(), After(seconds(60) + kTtl));
}

TEST_F(CensusTest, ReplicasThatAreAddedMayTakeItsGuardAway) {
  Census census(Auto(true, 3), 1);
  census.Meet({.identity = "a:1", .replicas = 2});
  EXPECT_EQ(census.guard(), Guard::kConfirmed);
  census.Meet({.identity = "a:1", .replicas = 3});
  EXPECT_EQ(census.guard(), Guard::kNone);
  census.Meet({.identity = "a:1", .replicas = 1});
  EXPECT_EQ(census.guard(), Guard::kNone) << "the others may still be there";
}

TEST_F(CensusTest, ThoseWhoKnowTellHowManyServersThereAre) {
  Census census(Auto(true), 1);
  census.Meet({.identity = "a:1", .replicas = 1});
  EXPECT_EQ(census.guard(), Guard::kNone);
  census.Servers(3);
  EXPECT_EQ(census.guard(), Guard::kConfirmed);
}

}  // namespace
}  // namespace distlock::store
