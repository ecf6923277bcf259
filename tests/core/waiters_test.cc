// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace distlock::core {
namespace {

TEST(Acquire, GrantsWithTheStoresToken) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  const auto command = t.Take<StoreAcquire>();
  EXPECT_EQ(command.name, Name("a"));
  EXPECT_EQ(command.ttl, kT);
  EXPECT_TRUE(command.wait);
  EXPECT_EQ(command.run_before, t.now + milliseconds(2500)) << "a sixth of the ttl";
  t.Reply(command.op, AcquireGranted{42, t.StoreNow()});
  const auto granted = t.Event<Granted>(1, 7);
  EXPECT_EQ(granted.token, 42u);
  EXPECT_EQ(granted.echo_seq, 0u);
  EXPECT_EQ(granted.valid_for, Told(kV));
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  EXPECT_EQ(t.broker.Stats().waiters, 0u);
}

TEST(Acquire, OneTryOnAHeldLockNamesTheHolderAndLeavesNothing) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = Duration::zero();
  t.Do(want);
  const auto command = t.Take<StoreAcquire>();
  EXPECT_FALSE(command.wait);
  t.Reply(command.op, AcquireHeld{{HolderView{.token = 5, .time_left = seconds(9), .info = "who"}}, 3});
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kLockHeld);
  EXPECT_EQ(refused.retry_after, seconds(9));
  EXPECT_EQ(refused.holders[0].info, "who");
  EXPECT_EQ(refused.queue_length, 3u);
  EXPECT_EQ(t.broker.Stats().waiters, 0u);
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Acquire, OneTryDuringAHoldOffIsToldOfIt) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = Duration::zero();
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireHeld{.queue_length = 2, .left = seconds(1), .held_off = seconds(38)});
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreHoldOff);
  EXPECT_EQ(refused.retry_after, seconds(38));
  EXPECT_EQ(refused.queue_length, 2u);
}

TEST(Acquire, AWaitThatEndsDuringAHoldOffIsToldOfIt) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = seconds(20);
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{.left = seconds(38), .held_off = seconds(38)});
  t.Pass(seconds(20) - Duration(1));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(Duration(1));
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreHoldOff);
  EXPECT_EQ(refused.retry_after, seconds(18));
  EXPECT_EQ(refused.waited, seconds(20));
}

// A holder that was seen since is what the lock is waited for.
TEST(Acquire, AWaitThatOutlastsAHoldOffTimesOut) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = seconds(6);
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{.left = seconds(5), .held_off = seconds(38)});
  t.Pass(seconds(5) + milliseconds(20));
  const HolderView other{.owner = Owner(9), .token = 5, .time_left = seconds(9)};
  t.Reply(t.Take<StoreTend>().op, TendDone{.holders = {other}, .left = seconds(9)});
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kWaitTimeout);
}

TEST(Acquire, AReplyAtOrAfterTheDeadlineGrantsNothingAndIsGivenBack) {
  OneSession t(SessionKind::kHold);
  t.Do(t.Want(1, 1, "a", 1));
  const auto command = t.Take<StoreAcquire>();
  t.now += kT - kMargin;  // no deadline runs on the way: the broker was stopped
  t.Reply(command.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_EQ(t.Count<StoreWithdraw>() + t.Count<StoreRelease>(), 1u);
}

TEST(Acquire, AnUnknownOutcomeIsAskedAgainUnderTheSameOwner) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  t.Reply(t.Take<StoreAcquire>().op, StoreUnknown{"connection reset"});
  EXPECT_TRUE(t.notes.empty());
  t.Pass(seconds(1));
  const auto again = t.Take<StoreAcquire>();
  EXPECT_EQ(again.owner, Owner(1));
  t.Reply(again.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 42u);
}

TEST(Acquire, AStoreThatStaysAwayIsSaidAfterTheStoreTimeout) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  t.Reply(t.Take<StoreAcquire>().op, StoreUnknown{"connection reset"});
  t.Do(StoreDown{"connection refused"});
  for (int i = 0; i < 4; ++i) {
    t.Pass(milliseconds(900));
    t.Do(Heartbeat{1, 1});
    EXPECT_EQ(t.Events<Refused>(), 0u);
  }
  t.Pass(milliseconds(1500));
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kStoreUnavailable);
  // It may have reached the store: once that is back, it is withdrawn.
  t.StoreComesUp();
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(1));
}

TEST(Acquire, OneTryFailsAtOnceWhenTheStoreHasLongBeenDown) {
  OneSession t(SessionKind::kHold);
  t.Do(StoreDown{"connection refused"});
  t.Pass(seconds(2));
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = Duration::zero();
  t.Do(want);
  t.Pass(Duration(1));
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(refused.cause, "connection refused");
}

TEST(Acquire, WaitsInTheQueueAndTimesOut) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = seconds(20);
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{2, {HolderView{.time_left = seconds(12)}}, 3});
  EXPECT_EQ(t.Event<Queued>(1, 7).position, 2u);
  t.Pass(seconds(20) - Duration(1));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(Duration(1));
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kWaitTimeout);
  EXPECT_EQ(refused.waited, seconds(20));
  const auto withdraw = t.Take<StoreWithdraw>();
  // The grant crossed the time-out: the script gives it back to the next one, nothing is left here.
  t.Reply(withdraw.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
  EXPECT_EQ(t.broker.Stats().queues, 0u);
}

TEST(Acquire, CancelWhileAskingIsAnsweredAndWithdrawn) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(Cancel{1, 7});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled);
  const auto withdraw = t.Take<StoreWithdraw>();
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Reply(withdraw.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Acquire, CancelAfterTheGrantReleasesIt) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(Cancel{1, 7});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(1));
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

// An acquire of unknown fate is cancelled, its withdrawal confirmed, and withdrawn once more `until` later.
void ExpectSecondWithdrawal(Table& t, Duration until) {
  t.Do(t.Want(1, 7, "a", 1));
  t.Reply(t.Take<StoreAcquire>().op, StoreUnknown{"connection reset"});
  t.Do(Cancel{1, 7});
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  EXPECT_EQ(t.broker.Stats().pending_releases, 1u) << "the lost acquire may still run";
  t.Pass(until - milliseconds(100));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(200));
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Acquire, AStragglerIsWithdrawnOnceMoreAfterItsTime) {
  OneSession t(SessionKind::kHold);
  ExpectSecondWithdrawal(t, milliseconds(2500));
}

TEST(Acquire, RefusalsByTheStoreHaveTheirOwnReasons) {
  const std::vector<std::pair<decltype(StoreReply::outcome), RefusalReason>> table = {
      {StoreFailed{FailureKind::kFull, "OOM"}, RefusalReason::kStoreFull},
      {StoreFailed{FailureKind::kForeignKey, "hash"}, RefusalReason::kForeignKey},
      {AcquireQueueFull{10'000}, RefusalReason::kQuotaExceeded},
  };
  for (const auto& [outcome, reason] : table) {
    OneSession t;
    t.Do(t.Want(1, 7, "a", 1));
    t.Reply(t.Take<StoreAcquire>().op, outcome);
    EXPECT_EQ(t.Event<Refused>(1, 7).reason, reason);
    EXPECT_EQ(t.broker.Stats().waiters, 0u);
  }
}

TEST(Acquire, ARepeatOfADetachedRequestGetsTheSameGrant) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  want.session = 2;
  t.Do(want);
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u);
  t.GrantNext(42);
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 42u);
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 42u);
  EXPECT_EQ(t.broker.Stats().leases, 0u) << "nobody here renews a detached lease";
}

TEST(Acquire, ADetachedCallThatEndsIsWithdrawnUnlessARepeatStillListens) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  want.session = 2;
  t.Do(want);
  t.QueueNext(seconds(5));
  t.Do(StreamEnded{1});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Do(StreamEnded{2});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u);
  EXPECT_EQ(t.broker.Stats().waiters, 0u);
}

TEST(Acquire, TheSameRequestAgainWaitsForItsOwnWithdrawal) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  const auto first = t.Take<StoreAcquire>();
  t.Do(StreamEnded{1});
  const auto withdraw = t.Take<StoreWithdraw>();
  want.session = 2;
  t.Do(want);
  EXPECT_EQ(t.Count<StoreAcquire>(), 0u) << "the withdrawal could give the new grant back";
  t.Reply(first.op, AcquireGranted{42, t.StoreNow()});
  t.Reply(withdraw.op, GiveBackDone{.was_holder = true});
  t.GrantNext(43);
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 43u);
}

TEST(Acquire, ASessionHasALimit) {
  BrokerConfig config;
  config.max_leases_per_session = 2;
  Table t(config);
  t.StoreComesUp();
  t.Open(1);
  for (int i = 1; i <= 3; ++i) t.Do(t.Want(1, static_cast<RequestId>(i), "k" + std::to_string(i), i));
  EXPECT_EQ(t.Event<Refused>(1, 3).reason, RefusalReason::kQuotaExceeded);
  EXPECT_EQ(t.Count<StoreAcquire>(), 2u);
}

TEST(Acquire, AnIdInUseIsRefused) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(t.Want(1, 7, "b", 2));
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Acquire, AnAttemptLeftBehindByAGrantIsAStraggler) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 9, "other", 9);
  t.Do(t.Want(1, 1, "a", 1));
  const auto first = t.Take<StoreAcquire>();
  t.Pass(milliseconds(2500));
  const auto second = t.Take<StoreAcquire>();
  t.Reply(first.op, AcquireQueued{0, {HolderView{.time_left = kT}}, 1});
  t.Do(GrantNotice{Name("a"), Owner(1), 77, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 77u);
  t.Reply(second.op, StoreUnknown{"reset"});
  t.Pass(milliseconds(1500));
  t.Do(Release{.session = 1, .request = 2, .acquire = 1, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 1u) << "the second attempt may run for another second";
}

TEST(Acquire, APlaceThatMayStillExistIsWithdrawn) {
  OneSession t(SessionKind::kHold);
  t.Do(t.Want(1, 1, "a", 1));
  t.QueueNext(kT);
  t.Do(ChannelUp{});
  t.Reply(t.Take<StoreTend>().op, TendDone{.slot_was_gone = true});
  t.Reply(t.Take<StoreAcquire>().op, StoreFailed{FailureKind::kNotSent, "reset"});
  t.Do(Cancel{1, 1});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u);
}

TEST(Acquire, AGrantThatComesTooLateIsAskedForAgainUnderTheSameOwner) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 1, "a", 1);
  want.ttl = seconds(1);
  t.Do(want);
  const auto late = t.Take<StoreAcquire>();
  t.now += seconds(1);
  t.Reply(late.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u) << "it could overtake the next attempt on a new connection";
  while (t.Count<StoreAcquire>() > 1) t.Take<StoreAcquire>();
  t.GrantNext(42);
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 42u);
}

TEST(Acquire, ALateRepeatThatEndsTakesNothingBack) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  t.GrantNext(42);
  t.Event<Granted>(1, 1);
  want.session = 2;
  t.Do(want);
  t.Do(StreamEnded{2});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
}

TEST(Acquire, AWaitShorterThanTheStoresAnswerIsATimeOut) {
  OneSession t;
  auto want = t.Want(1, 1, "a", 1);
  want.max_wait = milliseconds(10);
  t.Do(want);
  t.Pass(milliseconds(10));
  EXPECT_EQ(t.Event<Refused>(1, 1).reason, RefusalReason::kWaitTimeout);
}

TEST(Acquire, GivingUpARepeatableRequestFreesNoLock) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  want.owner[0] = kRepeatableMark;
  t.Do(want);
  t.Do(StreamEnded{1});
  EXPECT_TRUE(t.Take<StoreWithdraw>().keep_grant) << "a repeat may hold it through another broker";
  t.Do(GrantNotice{Name("a"), want.owner, 77, t.StoreNow(), kT, t.now});
  EXPECT_TRUE(t.Count<StoreWithdraw>() == 0 || t.Take<StoreWithdraw>().keep_grant);
}

TEST(Acquire, ADetachedGrantCountsFromWhenTheRequestArrived) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  const auto ask = t.Take<StoreAcquire>();
  t.now += milliseconds(300);
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  const auto granted = t.Event<Granted>(1, 1);
  EXPECT_EQ(granted.valid_for, Told(kT - kMargin - milliseconds(300)));
  EXPECT_EQ(granted.waited, Told(milliseconds(300))) << "less what its clock may lag";
}

TEST(Acquire, AWaitThatTimesOutNamesTheHolder) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 7, "a", 1);
  want.max_wait = seconds(1);
  t.Do(want);
  t.QueueNext(seconds(12));
  t.Pass(seconds(1));
  const auto refused = t.Event<Refused>(1, 7);
  ASSERT_EQ(refused.holders.size(), 1u);
  EXPECT_EQ(refused.holders[0].info, "who");
}

TEST(Acquire, AGrantThatNobodyHereKnowsIsGivenBack) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(Cancel{1, 7});
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u) << "the withdrawal ran before the acquire";
}

}  // namespace
}  // namespace distlock::core
