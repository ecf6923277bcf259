// SPDX-License-Identifier: Apache-2.0
//
// Renewals of many leases: which leave together, and how many at a time.
#include <string>

#include "core/limits.h"
#include "table.h"

namespace distlock::core {
namespace {

constexpr size_t kLeases = 450;

// That many, on session 1, all due for renewal, with a store that has come back just now.
void AllDue(Table& t) {
  t.StoreComesUp();
  t.Open(1);
  for (size_t i = 1; i <= kLeases; ++i) t.Hold(1, i, "k" + std::to_string(i), static_cast<int>(i));
  t.Do(StoreDown{"gone"});
  for (int i = 0; i < 6; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, 1});
  }
  t.StoreComesUp();
}

// Says that all keys were renewed; how many they are.
size_t Answer(Table& t) {
  const auto renew = t.Take<StoreRenew>();
  t.Reply(renew.op, RenewDoneBatch{std::vector<RenewResult>(renew.items.size(), RenewResult::kRenewed)});
  return renew.items.size();
}

// Another server may have forgotten any of them; the same one has not, and nothing is due yet.
TEST(Renewals, AllLeasesAreRenewedAtAnotherServerAndNoneAtTheSameOne) {
  for (const bool another : {true, false}) {
    Table t;
    t.StoreComesUp();
    t.Open(1);
    for (size_t i = 1; i <= 3; ++i) t.Hold(1, i, "k" + std::to_string(i), static_cast<int>(i));
    t.Pass(std::chrono::milliseconds(100));
    t.Do(StoreDown{"the primary is at another address now"});
    t.Do(StoreUp{.renew_all = another});
    t.Pass(std::chrono::milliseconds(10));
    size_t renewed = 0;
    while (t.Count<StoreRenew>() > 0) renewed += Answer(t);
    EXPECT_EQ(renewed, another ? 3u : 0u);
  }
}

TEST(Renewals, OfManyLeasesAreCallsOfAHundredTwoAtATime) {
  Table t;
  AllDue(t);
  size_t renewed = 0;
  while (t.Count<StoreRenew>() > 0) {
    EXPECT_LE(t.Count<StoreRenew>(), kMaxRenewalsSent);
    const size_t items = Answer(t);
    EXPECT_LE(items, kMaxRenewBatch);
    renewed += items;
  }
  EXPECT_EQ(renewed, kLeases);
  EXPECT_EQ(t.Events<Renewed>(), kLeases);
}

TEST(Renewals, WaitForSlowAnswersNoLongerThanThePace) {
  Table t;
  AllDue(t);
  EXPECT_EQ(t.Count<StoreRenew>(), 2u);
  t.Pass(kRenewPace - Duration(1));
  EXPECT_EQ(t.Count<StoreRenew>(), 2u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Count<StoreRenew>(), 4u);
  t.Pass(kRenewPace);
  EXPECT_EQ(t.Count<StoreRenew>(), 5u) << "and these are all";
  t.Pass(seconds(1));
  EXPECT_EQ(t.Count<StoreRenew>(), 5u);
  for (size_t i = 0; i < 5; ++i) Answer(t);
  EXPECT_EQ(t.Events<Renewed>(), kLeases);
}

TEST(Renewals, ThatHaveNotLeftGoWithTheirLease) {
  Table t;
  AllDue(t);
  ASSERT_EQ(t.Count<StoreRenew>(), 2u);
  EXPECT_EQ(t.broker.Stats().leases, kLeases);
  // In the order of at_risk_, which is that of creation: those from the 201st on wait.
  for (RequestId request = 201; request <= 300; ++request) {
    t.Do(Release{.session = 1, .request = 1000 + request, .acquire = request, .name = {}});
  }
  size_t renewed = 0;
  while (t.Count<StoreRenew>() > 0) renewed += Answer(t);
  EXPECT_EQ(renewed, kLeases - 100);
}

TEST(Renewals, ThatHaveNotLeftWhenTheStoreGoesDownLeaveWhenItIsBack) {
  Table t;
  AllDue(t);
  t.Do(StoreDown{"gone again"});
  for (int i = 0; i < 2; ++i) {
    const auto renew = t.Take<StoreRenew>();
    t.Reply(renew.op, StoreUnknown{"reset"});
  }
  t.Pass(milliseconds(100));
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  t.StoreComesUp();
  size_t renewed = 0;
  while (t.Count<StoreRenew>() > 0) renewed += Answer(t);
  EXPECT_EQ(renewed, kLeases);
}

TEST(Renewals, OfLeasesTakenWithinAShortTimeLeaveTogether) {
  Table t;
  t.StoreComesUp();
  for (int i = 1; i <= 20; ++i) {
    t.Open(static_cast<SessionId>(i), SessionKind::kHold);
    t.Hold(static_cast<SessionId>(i), 1, "k" + std::to_string(i), i);
    t.Pass(milliseconds(5));
  }
  t.Pass(seconds(6));
  size_t calls = 0;
  size_t renewed = 0;
  for (; t.Count<StoreRenew>() > 0; ++calls) renewed += Answer(t);
  EXPECT_EQ(renewed, 20u);
  EXPECT_LE(calls, 3u);
}

// Brokers of one machine have one clock.
TEST(Renewals, OfDifferentBrokersLeaveAtDifferentTimes) {
  std::vector<Instant> when;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{100'000'000}, uint64_t{123'456'789'012'345}}) {
    BrokerConfig config;
    config.seed = seed;
    Table t(config);
    t.StoreComesUp();
    t.Open(1, SessionKind::kHold);
    t.Hold(1, 1, "a", 1);
    const Duration grid = kT / 30;
    while (t.Count<StoreRenew>() == 0) t.Pass(milliseconds(1));
    when.push_back(Instant(t.now.time_since_epoch() % grid));
  }
  EXPECT_NE(when[0], when[1]);
  EXPECT_NE(when[1], when[2]);
  EXPECT_NE(when[0], when[2]);
}

}  // namespace
}  // namespace distlock::core
