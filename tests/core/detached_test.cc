// SPDX-License-Identifier: Apache-2.0
//
// Detached leases: requests repeated under their request_id, and leases named by their lease_id.
#include "table.h"

namespace distlock::core {
namespace {

Acquire Detached(Table& t, SessionId session) {
  auto want = t.WantDetached(session, 1, "a", 1);
  want.owner[0] = kRepeatableMark;
  return want;
}

Release ReleaseOf(const Granted& granted, SessionId session) {
  return Release{.session = session,
                 .request = 1,
                 .name = granted.name,
                 .owner = granted.owner,
                 .token = granted.token,
                 .ttl = granted.ttl};
}

TEST(Detached, ALeaseIsNamedByItsToken) {
  Table t;
  t.StoreComesUp();
  t.Do(Release{.session = 1, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT});
  EXPECT_EQ(t.Take<StoreRelease>().token, 42u);
  t.Do(Renew{
      .session = 2, .request = 1, .name = Name("a"), .owner = Owner(2), .token = 43, .ttl = kT, .hold_until = {}});
  const auto renew = t.Take<StoreRenew>();
  ASSERT_EQ(renew.items.size(), 1u);
  EXPECT_EQ(renew.items[0].token, 43u);
}

TEST(Detached, AReleaseOfAnotherGrantThanTheStreamsLeavesItAlone) {
  OneSession t(SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  auto release = ReleaseOf(granted, 9);
  release.token += 1;
  t.Do(release);
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  EXPECT_EQ(t.Events<Released>(), 0u);
  t.Do(ReleaseOf(granted, 9));
  EXPECT_EQ(t.Event<Released>(1, 1).outcome, ReleaseOutcome::kReleased);
}

TEST(Detached, ALateReleaseOfAnEarlierGrantLeavesTheRepeatAlone) {
  Table t;
  t.StoreComesUp();
  t.Do(Detached(t, 1));
  t.GrantNext(42);
  const auto first = t.Event<Granted>(1, 1);
  t.Do(Detached(t, 2));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(ReleaseOf(first, 3));
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.token, 42u);
  t.Reply(ask.op, AcquireGranted{43, t.StoreNow()});
  t.Reply(release.op, GiveBackDone{});
  EXPECT_EQ(t.Event<Released>(3, 1).outcome, ReleaseOutcome::kAlreadyGone);
  t.GrantNext(43);
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 43u);
}

TEST(Detached, OfTwoGrantsNamedTheLaterIsReleased) {
  Table t;
  t.StoreComesUp();
  t.Do(StoreDown{"gone"});
  for (uint64_t token : {42, 43}) {
    t.Do(Release{.session = token, .request = 1, .name = Name("a"), .owner = Owner(1), .token = token, .ttl = kT});
  }
  t.StoreComesUp();
  EXPECT_EQ(t.Take<StoreRelease>().token, 43u);
}

// Session 2's repeat has a place in the queue, behind somebody with `kT` left.
void QueueRepeat(Table& t, std::optional<Duration> max_wait = std::nullopt) {
  auto want = Detached(t, 2);
  want.max_wait = max_wait;
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op,
          AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = kT, .info = "who"}}, 1});
}

Release StaleRelease(SessionId session) {
  OwnerId owner = Owner(1);
  owner[0] = kRepeatableMark;
  return Release{.session = session, .request = 1, .name = Name("a"), .owner = owner, .token = 42, .ttl = kT};
}

GrantNotice NoticeOf(const Table& t, uint64_t token) {
  return GrantNotice{Name("a"), StaleRelease(0).owner, token, t.StoreNow(), kT, t.now};
}

TEST(Detached, AQueuedRepeatKeepsItsPlaceThroughALateRelease) {
  Table t;
  t.StoreComesUp();
  QueueRepeat(t);
  t.Do(StaleRelease(3));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{});
  t.QueueNext(kT);
  t.Do(NoticeOf(t, 77));
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 77u);
}

TEST(Detached, AGrantToTheRepeatIsNotWhatALateReleaseGivesBack) {
  Table t;
  t.StoreComesUp();
  QueueRepeat(t);
  t.Do(StaleRelease(3));
  t.Do(NoticeOf(t, 77));
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 77u);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{});
  EXPECT_EQ(t.Event<Released>(3, 1).outcome, ReleaseOutcome::kAlreadyGone);
  EXPECT_TRUE(t.commands.empty());
}

TEST(Detached, ARepeatWhoseGrantIsReleasedWithItAsksAgain) {
  Table t;
  t.is_any_meant = true;
  t.StoreComesUp();
  QueueRepeat(t);
  auto release = StaleRelease(3);
  release.token = 0;
  t.Do(release);
  t.Do(NoticeOf(t, 77));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  t.GrantNext(78);
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 78u);
}

TEST(Detached, ARepeatThatGivesUpDuringALateReleaseLeavesItsPlace) {
  Table t;
  t.StoreComesUp();
  QueueRepeat(t, seconds(1));
  t.Do(StaleRelease(3));
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Refused>(2, 1).reason, RefusalReason::kWaitTimeout);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{});
  const auto withdraw = t.Take<StoreWithdraw>();
  EXPECT_TRUE(withdraw.keep_grant);
  t.Reply(withdraw.op, GiveBackDone{.was_waiter = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Detached, AReleaseDuringAWithdrawalIsStillARelease) {
  Table t;
  t.StoreComesUp();
  QueueRepeat(t);
  t.Do(StreamEnded{2});
  const auto withdraw = t.Take<StoreWithdraw>();
  t.Do(StaleRelease(3));
  t.Reply(withdraw.op, GiveBackDone{});
  EXPECT_EQ(t.Events<Released>(), 0u);
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.token, 42u);
  t.Reply(release.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(3, 1).outcome, ReleaseOutcome::kReleased);
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Detached, AReleaseOfALaterGrantFollowsTheOneUnderWay) {
  Table t;
  t.StoreComesUp();
  t.Do(StaleRelease(3));
  const auto first = t.Take<StoreRelease>();
  auto later = StaleRelease(4);
  later.token = 43;
  t.Do(later);
  t.Reply(first.op, GiveBackDone{});
  EXPECT_EQ(t.Take<StoreRelease>().token, 43u);
}

TEST(Detached, EachRepeatWaitsForItsOwnMaxWait) {
  Table t;
  t.StoreComesUp();
  auto want = Detached(t, 1);
  want.max_wait = seconds(3);
  t.Do(want);
  t.QueueNext(kT);
  t.Pass(seconds(1));
  for (const auto& [session, wait] : {std::pair(2, 1), std::pair(3, 4)}) {
    want.session = static_cast<SessionId>(session);
    want.max_wait = seconds(wait);
    t.Do(want);
  }
  t.Pass(seconds(1));
  const auto second = t.Event<Refused>(2, 1);
  EXPECT_EQ(second.reason, RefusalReason::kWaitTimeout);
  EXPECT_EQ(second.waited, seconds(1));
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Refused>(1, 1).waited, seconds(3));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u) << "the third still waits";
  t.Pass(seconds(2));
  EXPECT_EQ(t.Event<Refused>(3, 1).waited, seconds(4));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u);
  EXPECT_EQ(t.broker.Stats().waiters, 0u);
}

TEST(Detached, ARepeatAsOneTryIsAnsweredAtOnce) {
  Table t;
  t.StoreComesUp();
  QueueRepeat(t);
  auto once = Detached(t, 3);
  once.max_wait = Duration::zero();
  t.Do(once);
  const auto refused = t.Event<Refused>(3, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kLockHeld);
  ASSERT_EQ(refused.holders.size(), 1u);
  EXPECT_EQ(refused.holders[0].info, "who");
  t.Do(NoticeOf(t, 77));
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 77u);
}

TEST(Detached, AOneTryThatJoinsARequestStillAskingGetsItsAnswer) {
  Table t;
  t.StoreComesUp();
  t.Do(Detached(t, 1));
  auto once = Detached(t, 2);
  once.max_wait = Duration::zero();
  t.Do(once);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = kT}}, 4});
  const auto refused = t.Event<Refused>(2, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kLockHeld);
  EXPECT_EQ(refused.queue_length, 4u);
  EXPECT_EQ(t.broker.Stats().waiters, 1u);
}

TEST(Detached, ARepeatThatWaitsOutlivesTheOneTryItJoined) {
  for (const bool ended : {false, true}) {
    Table t;
    t.StoreComesUp();
    auto once = Detached(t, 1);
    once.max_wait = Duration::zero();
    t.Do(once);
    t.Do(Detached(t, 2));
    if (ended) t.Do(StreamEnded{1});
    const auto ask = t.Take<StoreAcquire>();
    EXPECT_FALSE(ask.wait);
    t.Reply(ask.op, AcquireHeld{{HolderView{.owner = Owner(99), .time_left = kT}}, 0});
    EXPECT_EQ(t.Events<Refused>(), ended ? 0u : 1u);
    const auto again = t.Take<StoreAcquire>();
    EXPECT_TRUE(again.wait);
    t.Reply(again.op, AcquireGranted{77, t.StoreNow()});
    EXPECT_EQ(t.Event<Granted>(2, 1).token, 77u);
  }
}

TEST(Detached, AGrantCountsFromWhenEachRepeatArrived) {
  Table t;
  t.StoreComesUp();
  t.Do(Detached(t, 1));
  t.now += milliseconds(100);
  t.Do(Detached(t, 2));
  t.now += milliseconds(200);
  t.GrantNext(42);
  const auto first = t.Event<Granted>(1, 1);
  EXPECT_EQ(first.valid_for, Told(kT - kMargin - milliseconds(300))) << "the same for both: only the wait differs";
  EXPECT_EQ(first.waited, Told(milliseconds(300))) << "its clock may have been slow while it waited";
  const auto second = t.Event<Granted>(2, 1);
  EXPECT_EQ(second.valid_for, Told(kT - kMargin - milliseconds(300)));
  EXPECT_EQ(second.waited, Told(milliseconds(200)));
}

std::vector<FactKind> Kinds(const Table& t) {
  std::vector<FactKind> kinds;
  for (const Fact& fact : t.facts) kinds.push_back(fact.kind);
  return kinds;
}

TEST(Detached, EveryReleaseIsOnRecordByItsOutcome) {
  Table t;
  t.StoreComesUp();
  t.Do(StaleRelease(3));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  t.Do(StaleRelease(4));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{});
  EXPECT_EQ(Kinds(t), (std::vector{FactKind::kReleased, FactKind::kAlreadyGone}));

  t.facts.clear();
  t.Open(1);
  t.Hold(1, 7, "b", 7);
  t.facts.clear();
  t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(Kinds(t), std::vector{FactKind::kReleased}) << "once, by its lease";
}

TEST(Detached, AGrantThatNobodyCouldUseIsOnRecord) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 7));
  t.Do(Cancel{1, 7});
  t.facts.clear();
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(Kinds(t), std::vector{FactKind::kGivenBack});
}

TEST(Detached, APlaceThatOnlyAOneTryIsLeftForIsGivenUp) {
  Table t;
  t.StoreComesUp();
  t.Do(Detached(t, 1));
  auto once = Detached(t, 2);
  once.max_wait = Duration::zero();
  t.Do(once);
  t.Do(StreamEnded{1});
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = kT}}, 4});
  EXPECT_EQ(t.Event<Refused>(2, 1).reason, RefusalReason::kLockHeld);
  EXPECT_TRUE(t.Take<StoreWithdraw>().keep_grant);
  EXPECT_EQ(t.broker.Stats().waiters + t.broker.Stats().queues, 0u);
}

TEST(Detached, AGrantThatCameAfterItsWithdrawalIsLeftToARepeat) {
  Table t;
  t.StoreComesUp();
  t.Do(Detached(t, 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(StreamEnded{1});
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_TRUE(t.commands.empty()) << "it may hold it through another broker";
}

// The first grant was released through another broker meanwhile, so that the repeat waits, and is remembered here
// nevertheless.
TEST(Detached, ARepeatThatGivesUpLeavesTheQueueAlthoughItsRequestWasGrantedBefore) {
  for (const bool is_placed : {true, false}) {
    Table t;
    t.StoreComesUp();
    t.Do(Detached(t, 1));
    t.GrantNext(42);
    t.Event<Granted>(1, 1);
    t.Pass(seconds(1));
    if (is_placed) {
      QueueRepeat(t);
    } else {
      t.Do(Detached(t, 2));
      t.Take<StoreAcquire>();
    }
    t.Do(StreamEnded{2});
    EXPECT_TRUE(t.Take<StoreWithdraw>().keep_grant);
  }
}

TEST(Detached, ALateNoticeOfTheVeryGrantThatIsReleasedGrantsNothing) {
  Table t;
  t.StoreComesUp();
  QueueRepeat(t);
  t.Do(StaleRelease(3));
  t.Do(NoticeOf(t, 42));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  t.GrantNext(43);
  EXPECT_EQ(t.Event<Granted>(2, 1).token, 43u);
}

}  // namespace
}  // namespace distlock::core
