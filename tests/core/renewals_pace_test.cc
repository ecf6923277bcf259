// SPDX-License-Identifier: Apache-2.0
//
// Renewals without leases.h: the line in which due leases stand, and the pace at which it moves.
#include <deque>
#include <string>

#include "alone.h"
#include "core/limits.h"
#include "core/renewals.h"

namespace distlock::core {
namespace {

struct Line : Alone {
  Renewals renewals{core, none};
  std::deque<Lease> leases;

  Lease& Due(int n) {
    Lease& lease = leases.emplace_back(none);
    lease.name = Name("k" + std::to_string(n));
    lease.owner = Owner(n);
    lease.ttl = kT;
    renewals.Enqueue(lease);
    return lease;
  }
};

TEST(RenewalsPace, ALeaseStandsInLineOnce) {
  Line t;
  Lease& lease = t.Due(1);
  t.renewals.Enqueue(lease);
  t.renewals.Send();
  const auto sent = t.Take<StoreRenew>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].items.size(), 1u);
  EXPECT_EQ(lease.renew_op, sent[0].op);
  EXPECT_TRUE(t.renewals.empty());
  EXPECT_EQ(t.core.timers.size(), 0u) << "nothing is left that the pace could let go";
}

TEST(RenewalsPace, WhoIsRemovedOrEndingIsSkipped) {
  Line t;
  t.Due(1);
  Lease& removed = t.Due(2);
  t.Due(3).ending = true;
  t.Due(4);
  t.renewals.Remove(removed);
  t.renewals.Send();
  const auto sent = t.Take<StoreRenew>();
  ASSERT_EQ(sent.size(), 1u);
  ASSERT_EQ(sent[0].items.size(), 2u);
  EXPECT_EQ(sent[0].items[0].owner, Owner(1));
  EXPECT_EQ(sent[0].items[1].owner, Owner(4));
}

TEST(RenewalsPace, ALineOfThoseThatAreGoneSendsNothing) {
  Line t;
  t.Due(1).ending = true;
  t.renewals.Send();
  EXPECT_TRUE(t.Take<StoreRenew>().empty());
  EXPECT_EQ(t.core.ops_in_flight(), 0u);
}

TEST(RenewalsPace, OnlySoManyLeaveUntilOneIsAnsweredOrThePaceHasPassed) {
  Line t;
  for (int i = 0; i < 5 * static_cast<int>(kMaxRenewBatch); ++i) t.Due(i);
  t.renewals.Send();
  const auto first = t.Take<StoreRenew>();
  ASSERT_EQ(first.size(), kMaxRenewalsSent);
  t.renewals.Send();
  EXPECT_TRUE(t.Take<StoreRenew>().empty());

  t.renewals.OnAnswered(first[0].op, "");
  t.renewals.Send();
  EXPECT_EQ(t.Take<StoreRenew>().size(), 1u);

  t.Pass(kRenewPace);
  EXPECT_NE(t.PopDue(), nullptr);
  t.renewals.Send();
  EXPECT_EQ(t.Take<StoreRenew>().size(), 2u) << "others wait for a slow answer no longer than the pace";
  EXPECT_TRUE(t.renewals.empty());
  EXPECT_EQ(t.core.timers.size(), 0u);
}

TEST(RenewalsPace, TheNextRenewalIsOnTheGridWithinTheFractionOfTheTtl) {
  Line t;
  Lease& lease = t.Due(1);
  for (int i = 0; i < 100; ++i) {
    t.renewals.Schedule(lease, t.now);
    EXPECT_GE(lease.next_renew, t.now + kT / 3 * 9 / 10 - milliseconds(1));
    EXPECT_LE(lease.next_renew, t.now + kT / 3 + kT / 30) << "rounded up to the grid";
  }
}

TEST(RenewalsPace, TheTroubleIsTheStoresOrThatOfTheLastAnswer) {
  Line t;
  EXPECT_EQ(t.renewals.Trouble(), "no answer from the store");
  t.renewals.OnAnswered(1, "loading");
  EXPECT_EQ(t.renewals.Trouble(), "loading");
  t.core.store_up = false;
  t.core.store_trouble = "refused";
  EXPECT_EQ(t.renewals.Trouble(), "refused");
}

}  // namespace
}  // namespace distlock::core
