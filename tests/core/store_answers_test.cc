// SPDX-License-Identifier: Apache-2.0
//
// A store that comes back, answers late, twice or in part, or has not said yet what time it is.
#include "table.h"

namespace distlock::core {
namespace {

Renew DetachedRenewal(SessionId session, Duration ttl = kT) {
  return {.session = session,
          .request = 1,
          .name = Name("a"),
          .owner = Owner(1),
          .token = 42,
          .ttl = ttl,
          .hold_until = {}};
}

Downgrade Conversion() {
  return {.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}};
}

// Its answer, if only that its fate is unknown, is still to come.
TEST(StoreAnswers, WhatIsUnderWayIsNotAskedTwiceWhenTheStoreIsBack) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 7));
  t.Do(Release{.session = 8, .request = 1, .name = Name("b"), .owner = Owner(2), .token = 6, .ttl = kT});
  t.Do(DetachedRenewal(10));
  t.Do(Conversion());
  const auto sent = t.commands.size();
  t.Do(StoreDown{"reset"});
  t.StoreComesUp();
  EXPECT_EQ(t.commands.size(), sent);
  t.GrantNext(77);
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 77u);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(8, 1).outcome, ReleaseOutcome::kReleased);
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kRenewed}});
  t.Event<RenewDone>(10, 1);
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.result = DowngradeDone::Result::kDowngraded, .next = {}});
  t.Event<Downgraded>(9, 1);
}

TEST(StoreAnswers, ASecondAnswerToOneCommandIsNone) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  t.Event<Granted>(1, 7);
  t.Reply(ask.op, AcquireGranted{43, t.StoreNow()});
  t.Reply(ask.op + 1, AcquireGranted{44, t.StoreNow()});
  EXPECT_TRUE(t.commands.empty() && t.notes.empty());
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(StoreAnswers, ASecondRenewalOfOneCallIsNone) {
  Table t;
  t.StoreComesUp();
  t.Do(DetachedRenewal(5));
  t.Do(DetachedRenewal(5, kT * 2));
  const auto renew = t.Take<StoreRenew>();
  EXPECT_EQ(renew.items[0].ttl, kT);
  t.Reply(renew.op, RenewDoneBatch{{RenewResult::kRenewed}});
  EXPECT_EQ(t.Events<RenewDone>(), 1u);
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
}

TEST(StoreAnswers, ARenewalAnsweredAfterItsTtlIsAskedForAgain) {
  Table t;
  t.StoreComesUp();
  t.Do(DetachedRenewal(5, milliseconds(400)));
  const auto late = t.Take<StoreRenew>();
  t.now += milliseconds(450);
  t.Reply(late.op, RenewDoneBatch{{RenewResult::kRenewed}});
  EXPECT_EQ(t.Events<RenewDone>(), 0u) << "it may have ended since";
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kRenewed}});
  EXPECT_GT(t.Event<RenewDone>(5, 1).valid_for, milliseconds(800)) << "counted from the call";
}

TEST(StoreAnswers, AnAcquireOfUnknownFateMayRunUntilItsBound) {
  OneSession t(SessionKind::kHold);
  t.Do(t.Want(1, 7, "a", 1));
  const auto ask = t.Take<StoreAcquire>();
  EXPECT_EQ(ask.run_before, t.now + milliseconds(2500));
  t.Reply(ask.op, StoreUnknown{"reset"});
  t.Do(Cancel{1, 7});
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  t.Pass(milliseconds(2400));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(200));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u) << "once more when it must have run";
}

TEST(StoreAnswers, AStepOfItsClockRenewsEveryLease) {
  OneSession t;
  t.Hold(1, 1, "a", 1);
  t.Hold(1, 2, "b", 2);
  t.Pass(seconds(2));
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  t.Do(StoreClockStep{seconds(3)});
  size_t renewed = 0;
  while (t.Count<StoreRenew>() > 0) renewed += t.Take<StoreRenew>().items.size();
  EXPECT_EQ(renewed, 2u);
  size_t steps = 0;
  for (const Fact& fact : t.facts) steps += fact.kind == FactKind::kClockStep && fact.value == seconds(3);
  EXPECT_EQ(steps, 1u);
}

// A release that ran under the old clock has told nobody, or told it with a stamp that looks expired.
TEST(StoreAnswers, AStepOfItsClockLooksAtEveryQueue) {
  OneSession t;
  t.Do(t.Want(1, 1, "a", 1));
  t.QueueNext();
  EXPECT_EQ(t.Count<StoreTend>(), 0u);
  t.Do(StoreClockStep{-seconds(3600)});
  ASSERT_EQ(t.Count<StoreTend>(), 1u);
  EXPECT_EQ(t.Take<StoreTend>().name, Name("a"));
}

// One of several servers did not answer.
TEST(StoreAnswers, ALeaseLeftOutOfARenewalIsAtRiskAndTheOthersAreNot) {
  Table t;
  t.StoreComesUp();
  for (SessionId session = 1; session <= 2; ++session) {
    t.Open(session, SessionKind::kHold);
    t.Hold(session, 1, std::to_string(session), static_cast<int>(session));
  }
  t.Pass(kT / 3 + seconds(1));
  StoreRenew renew = t.Take<StoreRenew>();
  if (renew.items.size() == 1) {  // a grid point apart
    t.Reply(renew.op, RenewDoneBatch{{RenewResult::kRenewed}});
    renew = t.Take<StoreRenew>();
  }
  std::vector<RenewResult> results(renew.items.size(), RenewResult::kRenewed);
  results[0] = RenewResult::kUnanswered;
  const SessionId cut_off = renew.items[0].owner == Owner(1) ? 1 : 2;
  t.Reply(renew.op, RenewDoneBatch{.results = results, .trouble = "cut off"});
  EXPECT_EQ(t.Events<AtRisk>(), 1u);
  EXPECT_EQ(t.Event<AtRisk>(cut_off, 1).cause, "cut off");
  t.Pass(kT / 6);
  renew = t.Take<StoreRenew>();
  ASSERT_EQ(renew.items.size(), 1u) << "it is tried again";
  t.notes.clear();
  t.Reply(renew.op, RenewDoneBatch{{RenewResult::kRenewed}});
  t.Event<Renewed>(cut_off, 1);
}

TEST(StoreAnswers, ADetachedRenewalThatIsLeftUnansweredIsAskedForAgain) {
  Table t;
  t.StoreComesUp();
  t.Do(DetachedRenewal(5));
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{.results = {RenewResult::kUnanswered}, .trouble = "cut off"});
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(seconds(1));
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kRenewed}});
  t.Event<RenewDone>(5, 1);
}

TEST(StoreAnswers, ADetachedRenewalThatStaysUnansweredIsRefusedWithTheCause) {
  Table t;
  t.StoreComesUp();
  t.Do(DetachedRenewal(5));
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{.results = {RenewResult::kUnanswered}, .trouble = "cut off"});
  t.Pass(seconds(5));
  EXPECT_EQ(t.Event<Refused>(5, 1).cause, "cut off");
}

}  // namespace
}  // namespace distlock::core
