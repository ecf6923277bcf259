// SPDX-License-Identifier: Apache-2.0
//
// Until when a broker that was at a server may have a lease.
#include "store/redlock/ballot/last_seen.h"

#include <gtest/gtest.h>

namespace distlock::store::ballot {
namespace {

using std::chrono::seconds;

constexpr int64_t kWallNow = 1'700'000'000'000'000;

core::StoreTime Ago(seconds ago) { return {kWallNow - std::chrono::microseconds(ago).count()}; }

TEST(LastSeen, WhereNobodyWasNobodyIsWaitedFor) { EXPECT_EQ(UntilQuiet({.now = {kWallNow}}, seconds(30)), seconds(0)); }

TEST(LastSeen, ABrokerThatBeatsIsGoneTwoSecondsLaterAndItsLeasesATtlAfterThat) {
  EXPECT_EQ(UntilQuiet({.now = {kWallNow}, .beat = Ago(seconds(0))}, seconds(30)), seconds(32));
  EXPECT_EQ(UntilQuiet({.now = {kWallNow}, .beat = Ago(seconds(31))}, seconds(30)), seconds(1));
  EXPECT_EQ(UntilQuiet({.now = {kWallNow}, .beat = Ago(seconds(32))}, seconds(30)), seconds(0));
}

TEST(LastSeen, ABrokerThatOnlyAnnouncesItselfMayBeThereForAMinute) {
  EXPECT_EQ(UntilQuiet({.now = {kWallNow}, .beat = Ago(seconds(32)), .announced = Ago(seconds(32))}, seconds(30)),
            seconds(59));
  EXPECT_EQ(UntilQuiet({.now = {kWallNow}, .announced = Ago(seconds(91))}, seconds(30)), seconds(0));
}

TEST(LastSeen, ALongerTtlOfTheOthersCounts) {
  const LastSeen seen{.now = {kWallNow}, .beat = Ago(seconds(32)), .longest_ttl = seconds(60)};
  EXPECT_EQ(UntilQuiet(seen, seconds(30)), seconds(30));
}

TEST(LastSeen, ARefusalSaysWhoWasWhereWhenAndWhatToDo) {
  const LastSeen seen{.now = {kWallNow}, .beat = Ago(seconds(3)), .announced = Ago(seconds(40))};
  EXPECT_EQ(WhyNotQuiet("a:1", seen, seconds(30)),
            "a:1 saw another broker 3 s ago, and a lease of that one may last 30 s: stop all other brokers of these "
            "servers, and call again in 51 s; or, if they were stopped as long ago as that lease may last, with "
            "all_brokers_stopped");
  EXPECT_EQ(WhyNotQuiet("a:1", {.now = {kWallNow}}, seconds(30)), "");
}

}  // namespace
}  // namespace distlock::store::ballot
