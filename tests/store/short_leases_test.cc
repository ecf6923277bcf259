// SPDX-License-Identifier: Apache-2.0
//
// The broker warns of leases that run out at an old primary that goes on.
#include <gtest/gtest.h>

#include "store/redis/census.h"

namespace distlock::store {
namespace {

using core::Duration;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = HoldOffOptions::Kind;

constexpr Duration kTtl = seconds(30);

HoldOffOptions Three() { return {.kind = Kind::kAuto, .longest_ttl = kTtl, .nodes = 3, .can_fail_over = true}; }

// The warning of leases that an old primary outlasts.
std::string Warned(HoldOffOptions options, Duration usual_ttl, Duration max_lag, int wait_replicas = 0) {
  Census census(options, wait_replicas);
  census.Meet({.identity = "a:1", .replicas = 2, .min_replicas = max_lag > Duration::zero(), .max_lag = max_lag});
  return census.WarningOfShortLeases(usual_ttl);
}

TEST(ShortLeases, TheDefaultsOfTheServerAndOursMissTheCondition) {
  EXPECT_EQ(
      Warned(Three(), seconds(15), seconds(10)),
      "leases of 15000 ms may be held twice when a primary is cut off: min-replicas-max-lag is 10 s, so it grants "
      "for up to 12000 ms more, and two thirds of --default-ttl are only 10000 ms; run CONFIG SET "
      "min-replicas-max-lag 8 on each server, or use a --default-ttl of at least 18000 ms");
  EXPECT_EQ(Warned(Three(), seconds(15), seconds(8)), "") << "as it says";
  EXPECT_EQ(Warned(Three(), seconds(18), seconds(10)), "") << "as it says";
  EXPECT_EQ(Warned(Three(), milliseconds(17'999), seconds(10)).find("leases of 17999 ms"), 0u);
}

TEST(ShortLeases, NoLagThatWouldTurnTheGuardOffIsRecommended) {
  const std::string said = Warned(Three(), seconds(4), seconds(1));
  EXPECT_EQ(said.find("CONFIG SET"), std::string::npos) << said;
  EXPECT_NE(said.find("at least 4500 ms"), std::string::npos) << said;
}

TEST(ShortLeases, MatterWithMinReplicasOnlyAndWhereTheDataAreComplete) {
  EXPECT_EQ(Warned(Three(), seconds(15), seconds(10), /*wait_replicas=*/1), "") << "confirmed";
  EXPECT_EQ(Warned(Three(), seconds(1), {}), "") << "best effort, of which another warning tells";
  EXPECT_EQ(Warned({.kind = Kind::kOff, .nodes = 3, .can_fail_over = true}, seconds(15), seconds(10)), "");
  const HoldOffOptions one_name{.kind = Kind::kIfReplicated, .longest_ttl = kTtl, .nodes = 3};
  EXPECT_NE(Warned(one_name, seconds(15), seconds(10)), "") << "one name that fails over";
  Census census(Three(), 0);
  census.Meet({.identity = "a:1", .replicas = 2, .min_replicas = 1, .max_lag = seconds(10), .aof_always = true});
  EXPECT_EQ(census.guard(), Census::Guard::kNothingForgotten);
  EXPECT_NE(census.WarningOfShortLeases(seconds(15)), "") << "a replica that is promoted may have forgotten";
}

TEST(ShortLeases, OfAClusterAreThoseThatAReplacementByHandOutruns) {
  HoldOffOptions options = Three();
  options.unguarded = seconds(16);
  EXPECT_EQ(Warned(options, seconds(15), {}), "") << "its node-timeout is a guess";
  options.node_timeout = seconds(10);
  EXPECT_EQ(Warned(options, seconds(15), {}),
            "leases of 15000 ms may be held twice when a primary is cut off and replaced by hand (CLUSTER FAILOVER "
            "FORCE or TAKEOVER): cluster-node-timeout is 10000 ms, so it grants for up to 16000 ms more, and two "
            "thirds of --default-ttl are only 10000 ms; use a --default-ttl of at least 24000 ms, or lower "
            "cluster-node-timeout");
  EXPECT_EQ(Warned(options, seconds(24), {}), "");
  EXPECT_EQ(Warned(options, seconds(15), seconds(8)), "") << "min-replicas ends it sooner";
}

}  // namespace
}  // namespace distlock::store
