// SPDX-License-Identifier: Apache-2.0
//
// When, and for how long, a server grants nobody new a lock.
#include "store/redis/census.h"

#include <gtest/gtest.h>

namespace distlock::store {
namespace {

using core::Duration;
using core::Instant;
using core::StoreTime;
using std::chrono::seconds;
using Guard = Census::Guard;
using Kind = HoldOffOptions::Kind;

constexpr Duration kTtl = seconds(30);
constexpr Instant kHere{std::chrono::hours(9)};  // the broker's clock
constexpr int64_t kNow = 1'700'000'000'000'000;
const std::string kOpenText = "9007199254740991;9007199254740991";

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

// Fails when min-replicas-max-lag 0 counts as a guard: servers take that for off.
TEST_P(CensusGuard, DecidesHowLong) {
  Census census(GetParam().options, GetParam().wait_replicas);
  CensusFacts facts = GetParam().facts;
  facts.identity = "a:1";
  census.Meet(facts);
  EXPECT_EQ(census.guard(), GetParam().guard);
  const Census::Request next = census.Next(kHere);
  EXPECT_EQ(next.hold_off, GetParam().hold_off) << "if its data may be incomplete";
  EXPECT_EQ(next.complete_if.beating, GetParam().guard == Guard::kNothingForgotten);
  EXPECT_EQ(next.confirm, GetParam().guard != Guard::kConfirmed);
}

INSTANTIATE_TEST_SUITE_P(
    All, CensusGuard,
    testing::Values(
        GuardCase{"one_server", Auto(false), 0, {}, Guard::kAlone, kTtl},
        GuardCase{"one_that_appends_always", Auto(false), 0, {.aof_always = true}, Guard::kNothingForgotten, kTtl},
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
                  kTtl + seconds(12)},
        GuardCase{"min_replicas_that_lag_0_turns_off",
                  Auto(true, 3),
                  0,
                  {.replicas = 2, .min_replicas = 1},
                  Guard::kNone,
                  kTtl + seconds(12)},
        GuardCase{"min_replicas_that_scripts_pass",
                  Auto(true, 3),
                  0,
                  {.replicas = 2, .min_replicas = 1, .max_lag = seconds(10), .scripts_pass = true},
                  Guard::kNone,
                  kTtl + seconds(12)},
        GuardCase{"too_few_min_replicas",
                  Auto(true, 5),
                  0,
                  {.min_replicas = 1, .max_lag = seconds(10)},
                  Guard::kNone,
                  kTtl + seconds(12)},
        GuardCase{"one_that_was_seen_to_have_replicas",
                  {.kind = Kind::kIfReplicated, .longest_ttl = kTtl},
                  0,
                  {.replicas = 1},
                  Guard::kNone,
                  kTtl + seconds(12)},
        GuardCase{"fixed", {.kind = Kind::kFixed, .fixed = seconds(7)}, 0, {}, Guard::kAlone, seconds(7)}),
    [](const auto& one) { return one.param.name; });

class CensusTest : public testing::Test {
 protected:
  static Census::Count Counted(Duration at, Duration since, Duration hold_off = kTtl) {
    return {.time = After(at), .since = After(since), .hold_off = hold_off, .longest_ttl = kTtl};
  }
  static std::string Argument(Duration until) { return std::to_string(After(until).us) + ";0"; }

  // As scripts are told, by the latest knowledge, of new holders.
  static std::string Told(const Census& census, Instant now = kHere) {
    const std::string told = census.ScriptArgument(now, {});
    const size_t others = told.find(';', told.find(';') + 1);
    return told.substr(0, others);
  }
  static Census Known(const HoldOffOptions& options, int wait_replicas = 0) {
    Census census(options, wait_replicas);
    census.OnSame(kHere);
    return census;
  }

  Census census_ = Known(Auto(false));
};

TEST_F(CensusTest, OffHoldsNobodyOff) {
  const Census off({}, 0);
  EXPECT_FALSE(off.on());
  EXPECT_FALSE(off.holds_off());
  EXPECT_EQ(Told(off), "0");
}

TEST_F(CensusTest, NobodyIsGrantedALockBeforeTheFirstCountNorUntilTheEnd) {
  EXPECT_EQ(Told(census_), kOpenText);
  census_.Meet({.identity = "a:1"});
  EXPECT_EQ(Told(census_), kOpenText);
  EXPECT_EQ(census_.Left(After({})), Duration::max());
  EXPECT_EQ(census_.HeldOffUntil(kHere), kOpenEnd);
  census_.OnCount(Counted(seconds(1), {}), kHere);
  EXPECT_EQ(Told(census_), Argument(kTtl));
  EXPECT_EQ(census_.HeldOffUntil(kHere), After(kTtl));
  EXPECT_EQ(census_.Left(After(seconds(1))), kTtl - seconds(1));
  census_.OnCount(Counted(kTtl - Duration(1000), {}), kHere);
  EXPECT_TRUE(census_.holds_off());
  census_.OnCount(Counted(kTtl, {}), kHere);
  EXPECT_EQ(Told(census_), "0");
}

TEST_F(CensusTest, ALongerHoldOffOfAnotherBrokerCounts) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted({}, {}, 2 * kTtl), kHere);
  EXPECT_EQ(Told(census_), Argument(2 * kTtl));
  census_.OnCount(Counted({}, {}, seconds(1)), kHere);
  EXPECT_EQ(Told(census_), Argument(kTtl));
}

TEST_F(CensusTest, AReconnectToTheSameDataKeepsWhatIsKnownAndAnotherIdentityForgetsIt) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted({}, {}), kHere);
  census_.Meet({.identity = "a:1"});
  EXPECT_EQ(census_.Next(kHere).known_since, After({}));
  census_.Meet({.identity = "a:2"});
  EXPECT_EQ(Told(census_), kOpenText);
  EXPECT_EQ(census_.Next(kHere).known_since, StoreTime{});
}

// The replica that confirms may have begun to follow after the first census.
TEST_F(CensusTest, WithReplicasItCountsFromTheCensusAfterTheyConfirmed) {
  Census census = Known(Auto(true, 3), 1);
  census.Meet({.identity = "a:1", .replicas = 1});
  census.OnReplicas(1);
  EXPECT_FALSE(census.Next(kHere).confirm) << "no marker was written that they could have confirmed";
  census.OnCount({.time = After({}), .since = {}, .hold_off = kTtl, .longest_ttl = kTtl}, kHere);
  EXPECT_EQ(Told(census), kOpenText);
  census.OnReplicas(0);
  EXPECT_TRUE(census.AwaitsReplicas());
  EXPECT_FALSE(census.Next(kHere).confirm);
  census.OnReplicas(1);
  EXPECT_TRUE(census.Next(kHere).confirm);
  EXPECT_EQ(Told(census), kOpenText) << "it counts from the next one";
  census.OnCount(Counted(seconds(5), seconds(5)), kHere);
  EXPECT_EQ(Told(census), Argument(seconds(5) + kTtl));
  census.Meet({.identity = "b:1", .replicas = 1});
  EXPECT_TRUE(census.AwaitsReplicas());
}

TEST_F(CensusTest, AClockThatIsSetForwardDoesNotEndItEarly) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted(seconds(1), {}), kHere);
  census_.OnClockStep(seconds(60));
  EXPECT_EQ(Told(census_), Argument(seconds(60) + kTtl));
  EXPECT_EQ(census_.Next(kHere).known_since, After({})) << "as the marker has it, for those who did not see the step";
  census_.OnCount(Counted(seconds(62), {}), kHere);
  EXPECT_EQ(Told(census_), Argument(seconds(60) + kTtl));
  census_.OnClockStep(-seconds(60));
  EXPECT_TRUE(census_.holds_off());
  EXPECT_EQ(census_.until(), After(seconds(60) + kTtl));
}

TEST_F(CensusTest, ReplicasThatAreAddedMayTakeItsGuardAway) {
  Census census = Known(Auto(true, 3), 1);
  census.Meet({.identity = "a:1", .replicas = 2});
  EXPECT_EQ(census.guard(), Guard::kConfirmed);
  census.Meet({.identity = "a:1", .replicas = 3});
  EXPECT_EQ(census.guard(), Guard::kNone);
  census.Meet({.identity = "a:1", .replicas = 1});
  EXPECT_EQ(census.guard(), Guard::kNone) << "the others may still be there";
}

TEST_F(CensusTest, ThoseWhoKnowTellHowManyServersThereAre) {
  Census census = Known(Auto(true), 1);
  census.Meet({.identity = "a:1", .replicas = 1});
  EXPECT_EQ(census.guard(), Guard::kNone);
  census.Servers(3);
  EXPECT_EQ(census.guard(), Guard::kConfirmed);
}

// A lease of an hour is out when all brokers are given --max-ttl 15s.
TEST_F(CensusTest, ALongerTtlCountsUntilTheLastLeaseThatHadItIsOver) {
  const auto ttls = std::make_shared<AssertedTtls>();
  const HoldOffOptions shorter{.kind = Kind::kAuto, .longest_ttl = seconds(15)};
  Census asked(shorter, 0, ttls);
  asked.Meet({.identity = "a:1"});
  asked.OnCount({.time = After({}),
                 .since = StoreTime{1},
                 .hold_off = seconds(15),
                 .said = {{std::chrono::hours(1), {}}, {seconds(15), {}}}},
                kHere);
  Census other(shorter, 0, ttls);
  other.Meet({.identity = "b:1"});
  EXPECT_EQ(other.Next(kHere).hold_off, std::chrono::hours(1)) << "of another server, too";
  EXPECT_EQ(other.Next(kHere + std::chrono::minutes(59)).hold_off, std::chrono::hours(1));
  const Census::Request later = other.Next(kHere + std::chrono::minutes(61));
  EXPECT_EQ(later.hold_off, seconds(15));
  EXPECT_EQ(later.said.size(), 1u);
}

TEST_F(CensusTest, WhatAllBrokersSayIsWrittenAtEachServer) {
  census_.Meet({.identity = "a:1"});
  Census::Count count = Counted({}, {});
  count.said = {{seconds(60), seconds(5)}};
  census_.OnCount(count, kHere);
  const std::vector<AssertedTtls::Assertion> said = census_.Next(kHere + seconds(1)).said;
  EXPECT_EQ(said, (std::vector<AssertedTtls::Assertion>{{kTtl, {}}, {seconds(60), seconds(6)}}));
}

TEST_F(CensusTest, DataThatNeedNotBeIncompleteAreHeldOffOnlyAsMarked) {
  census_.Meet({.identity = "a:1", .aof_always = true});
  EXPECT_EQ(Told(census_), kOpenText) << "nobody has judged them yet";
  census_.OnCount(Counted(seconds(1), {}, {}), kHere);
  EXPECT_FALSE(census_.holds_off());
  EXPECT_EQ(census_.guard(), Guard::kNothingForgotten);
  census_.Meet({.identity = "a:2", .aof_always = true});
  census_.OnCount(Counted(seconds(1), {}, seconds(9)), kHere);
  EXPECT_EQ(Told(census_), Argument(seconds(9)));
  EXPECT_EQ(census_.guard(), Guard::kAlone);
}

// The settings of a later process do not show what the one before kept.
TEST_F(CensusTest, ItSaysSinceWhenTheSettingsAreKnownToKeepEachWrite) {
  census_.Meet({.identity = "a:1", .asked = After(seconds(1)), .aof_always = true});
  EXPECT_EQ(census_.Next(kHere).kept, After(seconds(1)));
  census_.Meet({.identity = "a:1", .asked = After(seconds(2))});
  EXPECT_EQ(census_.Next(kHere).kept, StoreTime{}) << "an operator has changed them";
  census_.Meet({.identity = "a:1", .aof_always = true});
  EXPECT_EQ(census_.Next(kHere).kept, StoreTime{}) << "nobody knows when they were so";
}

TEST_F(CensusTest, MinReplicasThatScriptsPassAreWarnedOf) {
  CensusFacts facts{.identity = "a:1", .replicas = 2, .min_replicas = 1, .max_lag = seconds(10), .scripts_pass = true};
  Census census = Known(Auto(true, 3));
  census.Meet(facts);
  EXPECT_NE(census.WarningOfScripts().find("Redis before 6.2.7"), std::string::npos);
  Census confirmed = Known(Auto(true, 3), 1);
  confirmed.Meet(facts);
  EXPECT_EQ(confirmed.WarningOfScripts(), "") << "replicas confirm each grant";
  facts.min_replicas = 0;
  census.Meet(facts);
  EXPECT_EQ(census.WarningOfScripts(), "") << "nobody takes it for guarded";
  facts.min_replicas = 1;
  facts.scripts_pass = false;
  census.Meet(facts);
  EXPECT_EQ(census.WarningOfScripts(), "");
}

// As after FLUSHALL: the marker is gone, or another broker has judged the data anew already.
TEST_F(CensusTest, DataThatWereDeletedAreHeldOffAnew) {
  census_.Meet({.identity = "a:1", .aof_always = true});
  EXPECT_FALSE(census_.Next(kHere).has_marked) << "nothing was there that could be missed";
  EXPECT_FALSE(census_.OnCount(Counted(seconds(1), {}, {}), kHere));
  EXPECT_TRUE(census_.Next(kHere).has_marked);
  EXPECT_FALSE(census_.OnCount(Counted(seconds(2), {}, {}), kHere));
  EXPECT_EQ(Told(census_), "0");
  EXPECT_TRUE(census_.OnCount(Counted(seconds(9), seconds(9)), kHere));
  EXPECT_EQ(Told(census_), Argument(seconds(9) + kTtl));
  EXPECT_FALSE(census_.OnCount(Counted(seconds(10), seconds(9)), kHere));
  EXPECT_TRUE(census_.OnCount({.time = After(seconds(11)), .hold_off = kTtl}, kHere)) << "others await replicas";
  EXPECT_EQ(Told(census_), kOpenText);
}

// A Cluster's node has the keys of a slot of its own.
TEST_F(CensusTest, UnderOtherKeysNothingIsMissed) {
  census_.Meet({.identity = "a:1", .aof_always = true});
  census_.OnCount(Counted(seconds(1), {}, {}), kHere);
  census_.OnOtherKeys();
  EXPECT_FALSE(census_.Next(kHere).has_marked);
  EXPECT_EQ(census_.Next(kHere).known_since, After({}));
  EXPECT_FALSE(census_.OnCount(Counted(seconds(2), seconds(1), {}), kHere));
  EXPECT_TRUE(census_.Next(kHere).has_marked);
}

TEST_F(CensusTest, OneOfSeveralServersSaysWhichOne) {
  HoldOffOptions options = Auto(false);
  options.server = "a:6379";
  Census census = Known(options);
  census.Meet({.identity = "a:1"});
  EXPECT_EQ(census.Next(kHere).server, "a:6379");
}

TEST_F(CensusTest, AServerWithoutReplicasIsNotObeyedUntilItHasSome) {
  Census census =
      Known({.kind = Kind::kIfReplicated, .longest_ttl = std::chrono::hours(1), .longest_ttl_if_replicated = kTtl});
  EXPECT_EQ(Told(census), "0");
  census.Meet({.identity = "a:1"});
  EXPECT_TRUE(census.Next(kHere).complete_if.original);
  census.OnCount(Counted({}, {}, {}), kHere);
  EXPECT_FALSE(census.obeys());
  EXPECT_EQ(census.Next(kHere).hold_off, kTtl);
  census.OnTtl(std::chrono::minutes(10), kHere);
  EXPECT_EQ(census.Next(kHere + seconds(1)).said.size(), 2u) << "a lease is out that is longer than any later one";
  EXPECT_EQ(Told(census, kHere + seconds(60)), "0");
  census.Meet({.identity = "a:1", .replicas = 1});
  EXPECT_TRUE(census.obeys());
  EXPECT_EQ(census.longest_ttl(), kTtl);
  EXPECT_EQ(Told(census), "0");
  EXPECT_EQ(census.Next(kHere + seconds(600)).hold_off, std::chrono::minutes(10) + seconds(12));
  EXPECT_EQ(census.Next(kHere + seconds(611)).hold_off, kTtl + seconds(12)) << "it has ended";
  census.Meet({.identity = "a:2"});
  EXPECT_EQ(Told(census), kOpenText) << "it may have been replaced";
}

TEST_F(CensusTest, TheMarkerTellsThatThereWereReplicas) {
  Census census = Known({.kind = Kind::kIfReplicated, .longest_ttl = kTtl});
  census.Meet({.identity = "a:1"});
  Census::Count count = Counted(seconds(1), {}, 2 * kTtl);
  count.replicated = true;
  census.OnCount(count, kHere);
  EXPECT_EQ(Told(census), Argument(2 * kTtl));
  EXPECT_EQ(census.guard(), Guard::kNone);
}

// One address leads to another server, which is empty: nothing there tells of replicas, but this broker knows.
// Fails when only replicas that wait count, and not that the server was ever replicated.
TEST_F(CensusTest, DataBehindAnAddressThatIsKnownToFailOverAreNoOriginal) {
  Census census = Known({.kind = Kind::kIfReplicated, .longest_ttl = kTtl});
  census.Meet({.identity = "a:1"});
  EXPECT_TRUE(census.Next(kHere).complete_if.original);
  census.OnCount(Counted({}, {}, {}), kHere);
  census.Meet({.identity = "a:1", .replicas = 1});
  EXPECT_TRUE(census.Next(kHere).complete_if.original) << "it was judged before it had replicas";
  EXPECT_EQ(Told(census), "0");
  census.Meet({.identity = "b:1"});
  EXPECT_FALSE(census.Next(kHere).complete_if.original);
  EXPECT_EQ(census.Next(kHere).hold_off, kTtl + seconds(12));
  census.OnCount(Counted(seconds(1), {}, {}), kHere);
  EXPECT_EQ(Told(census), Argument(kTtl + seconds(12))) << "whatever a broker that knew nothing has marked";
}

TEST_F(CensusTest, APrimaryThatWasReplacedGrantsForAsLongAsItsGuardLetsIt) {
  Census census = Known(Auto(true, 3));
  census.Meet({.identity = "a:1", .min_replicas = 1, .max_lag = seconds(8)});
  EXPECT_EQ(census.OthersUntil(kHere), kOpenEnd) << "nobody knows since when it is the primary";
  census.OnCount(Counted(seconds(1), {}, kTtl + seconds(10)), kHere);
  EXPECT_EQ(census.OthersUntil(kHere), After(seconds(10)));
  Census confirmed = Known(Auto(true, 3), 1);
  confirmed.Meet({.identity = "a:1"});
  EXPECT_EQ(confirmed.OthersUntil(kHere), core::StoreTime{}) << "what replicas do not confirm is given to nobody";
  EXPECT_EQ(census.ScriptArgument(kHere, {}),
            Argument(kTtl + seconds(10)) + ";" + std::to_string(After(seconds(10)).us));
}

TEST_F(CensusTest, WhatIsKnownOfAServerIsTrustedForTwoSeconds) {
  census_.Meet({.identity = "a:1"});
  census_.OnCount(Counted(kTtl, {}), kHere);
  EXPECT_EQ(Told(census_, kHere + seconds(2)), "0");
  const Instant late = kHere + seconds(2) + Duration(1);
  EXPECT_EQ(Told(census_, late), kOpenText);
  EXPECT_TRUE(census_.HoldsOff(late));
  EXPECT_FALSE(census_.holds_off()) << "by what was heard last";
  census_.OnSame(kHere + seconds(1));
  EXPECT_EQ(Told(census_, late), "0");
  census_.OnSame(kHere);
  EXPECT_FALSE(census_.IsStale(late)) << "an older answer takes nothing away";
  EXPECT_FALSE(Census({}, 0).IsStale(late));
}

}  // namespace
}  // namespace distlock::store
