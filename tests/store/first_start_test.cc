// SPDX-License-Identifier: Apache-2.0
//
// When a hold-off counts from the start of a server's process.
#include <gtest/gtest.h>

#include "store/redis/census.h"

namespace distlock::store {
namespace {

using Kind = HoldOffOptions::Kind;

constexpr core::Instant kAtBroker{std::chrono::hours(9)};  // the broker's clock

// Fails when a broker that has known another server takes an empty one for its first.
TEST(FirstStart, OnlyAFirstStartAtAServerThatNobodyReplacedCountsFromItsStart) {
  HoldOffOptions one{.kind = Kind::kAuto, .longest_ttl = std::chrono::seconds(30)};
  Census of_cluster(one, 0);
  of_cluster.Meet({.identity = "a:1"});
  EXPECT_FALSE(of_cluster.Next(kAtBroker).lives) << "a Cluster's node, whose slots come from others";
  one.has_all_locks = true;
  Census census(one, 0);
  census.Meet({.identity = "a:1"});
  EXPECT_TRUE(census.Next(kAtBroker).lives);
  census.Meet({.identity = "a:2"});
  EXPECT_FALSE(census.Next(kAtBroker).lives) << "this broker has known another server";
  Census promoted(one, 0);
  promoted.Meet({.identity = "a:1", .promoted = true});
  EXPECT_FALSE(promoted.Next(kAtBroker).lives);
  one.kind = Kind::kFixed;
  Census fixed(one, 0);
  fixed.Meet({.identity = "a:1"});
  EXPECT_FALSE(fixed.Next(kAtBroker).lives) << "it is obeyed";
}

// Fails when a primary without followers counts from its start: one that was cut off would grant at once.
TEST(FirstStart, APrimaryMustBeFollowedByMostToCountFromItsStart) {
  const HoldOffOptions watched{
      .kind = Kind::kAuto, .longest_ttl = std::chrono::seconds(30), .can_fail_over = true, .has_all_locks = true};
  Census census(watched, 0);
  census.Meet({.identity = "a:1", .replicas = 2, .in_step = 2});
  EXPECT_FALSE(census.Next(kAtBroker).lives) << "how many there are is not known";
  census.Servers(3);
  EXPECT_TRUE(census.Next(kAtBroker).lives);
  census.Meet({.identity = "a:1", .replicas = 2, .in_step = 1});
  EXPECT_TRUE(census.Next(kAtBroker).lives);
  census.Meet({.identity = "a:1", .replicas = 2, .in_step = 0});
  EXPECT_FALSE(census.Next(kAtBroker).lives) << "one of them may be the primary now";
}

}  // namespace
}  // namespace distlock::store
