// SPDX-License-Identifier: Apache-2.0
//
// Pending releases without the other parts: see pending_releases_test.cc for what callers see of them.
#include <vector>

#include "alone.h"
#include "core/limits.h"
#include "core/pending_releases.h"

namespace distlock::core {
namespace {

struct Releases : Alone {
  Queues queues{core, none};
  Claims claims{core};
  PendingReleases releases{core, claims, queues};

  // Whether the record is gone after this answer to the command `op`.
  bool Answer(OpId op, decltype(StoreReply::outcome) outcome) {
    const std::optional<Op> sent = core.TakeOp(op);
    StoreReply reply{op, std::move(outcome)};
    releases.OnReply(*sent, op, reply);
    return IsGone();
  }
  bool IsDueAndGone(PendingRelease& release) {
    releases.OnTimer(release);
    return IsGone();
  }
  bool IsGone() { return !releases.TakeGone().empty(); }
  PendingRelease& Start(Duration block = Duration::zero(), uint64_t only_token = 0) {
    return releases.StartRelease(Name("a"), Owner(1), block, kT, only_token);
  }
};

TEST(ReleaseRecords, AConfirmedReleaseIsGone) {
  Releases t;
  t.releases.Pursue(t.Start());
  const auto sent = t.Take<StoreRelease>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_NE(t.claims.ReleaseOf(Owner(1)), nullptr);
  EXPECT_TRUE(t.Answer(sent[0].op, GiveBackDone{.was_holder = true}));
  EXPECT_EQ(t.claims.ReleaseOf(Owner(1)), nullptr);
  EXPECT_EQ(t.core.timers.size(), 0u);
}

TEST(ReleaseRecords, AnUnknownOutcomeIsRepeated) {
  Releases t;
  PendingRelease& release = t.Start();
  t.releases.Pursue(release);
  EXPECT_FALSE(t.Answer(t.Take<StoreRelease>()[0].op, StoreUnknown{"reset"}));
  EXPECT_TRUE(release.order_lost);
  t.Pass(seconds(1));
  ASSERT_EQ(t.PopDue(), &release);
  EXPECT_FALSE(t.IsDueAndGone(release));
  EXPECT_EQ(t.Take<StoreRelease>().size(), 1u);
}

TEST(ReleaseRecords, AnAcquireThatMayStillRunIsWithdrawnAfterwards) {
  Releases t;
  PendingRelease& release = t.Start();
  release.may_run_until = t.now + seconds(3);
  release.order_lost = true;
  t.releases.Pursue(release);
  EXPECT_FALSE(t.Answer(t.Take<StoreRelease>()[0].op, GiveBackDone{.was_holder = true}));
  EXPECT_EQ(release.at, t.now + seconds(3));
  t.releases.OnStoreUp();
  EXPECT_TRUE(t.Take<StoreWithdraw>().empty()) << "too early: the acquire could run after it";
  t.Pass(seconds(3));
  ASSERT_EQ(t.PopDue(), &release);
  EXPECT_FALSE(t.IsDueAndGone(release));
  EXPECT_TRUE(t.Answer(t.Take<StoreWithdraw>()[0].op, GiveBackDone{}));
}

TEST(ReleaseRecords, ASecondReasonJoinsTheFirst) {
  Releases t;
  PendingRelease& release = t.Start(Duration::zero(), 5);
  EXPECT_EQ(&t.Start(Duration::zero(), 7), &release);
  EXPECT_EQ(release.only_token, 7u) << "of two grants of one owner the earlier has ended";
  EXPECT_TRUE(t.claims.IsReleasing(Owner(1), 7));
  EXPECT_FALSE(t.claims.IsReleasing(Owner(1), 8));
  t.Start();
  EXPECT_EQ(release.only_token, 0u) << "whatever the owner has";
  EXPECT_TRUE(t.claims.IsReleasing(Owner(1), 8));
  EXPECT_EQ(t.claims.releases(), 1u);
}

TEST(ReleaseRecords, TheCallerOfAnEarlierGrantIsToldWhenALaterOneIsGivenBack) {
  Releases t;
  PendingRelease& release = t.Start(seconds(2), 7);
  t.releases.TellOutcome(release, {1, 1});
  t.releases.Pursue(release);
  EXPECT_TRUE(t.Take<Notify>().empty());
  ASSERT_EQ(&t.Start(seconds(1), 9), &release);
  t.releases.TellOutcome(release, {2, 2});
  const auto told = t.Take<Notify>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].session, 1u);
  EXPECT_EQ(std::get<Released>(told[0].event).outcome, ReleaseOutcome::kReleased);
  EXPECT_EQ(release.recipient.session, 2u);
  EXPECT_EQ(release.block, seconds(2)) << "the longest that was asked for";
}

TEST(ReleaseRecords, APlaceInTheQueueIsNoGrant) {
  Releases t;
  t.releases.StartWithdrawal(Name("a"), Owner(1), kT);
  EXPECT_FALSE(t.claims.IsReleasing(Owner(1), 0));
  EXPECT_NE(t.claims.ReleaseOf(Owner(1)), nullptr);
}

TEST(ReleaseRecords, TheEndOfABlockIsLookedAt) {
  Releases t;
  Waiter waiter(t.none);
  waiter.serial = t.core.NextSerial();
  waiter.spec.name = Name("a");
  t.queues.Join(waiter);
  t.releases.Pursue(t.Start(seconds(2)));
  t.Answer(t.Take<StoreRelease>()[0].op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.queues.Find(Name("a"))->at, t.now + seconds(2) + kExpirySlack);
}

TEST(ReleaseRecords, WhatTheStoreMustHaveForgottenIsGone) {
  Releases t;
  t.core.store_up = false;
  PendingRelease& release = t.Start();
  t.releases.Pursue(release);
  t.Pass(release.until - t.now);
  ASSERT_EQ(t.PopDue(), &release);
  EXPECT_TRUE(t.IsDueAndGone(release));
  EXPECT_EQ(t.claims.releases(), 0u);
}

}  // namespace
}  // namespace distlock::core
