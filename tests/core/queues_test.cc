// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace distlock::core {
namespace {

// Session 1 waits for "a" as owner 1 behind a holder with `left`.
void Wait(Table& t, Duration left) {
  t.StoreComesUp();
  t.Open(1, SessionKind::kHold);
  t.Do(t.Want(1, 1, "a", 1));
  t.QueueNext(left);
  t.Event<Queued>(1, 1);
}

GrantNotice NoticeFor(const Table& t, int owner, const std::string& key) {
  return GrantNotice{Name(key), Owner(owner), 77, t.StoreNow(), kT, t.now};
}

TEST(Queue, ANoticeGrants) {
  Table t;
  Wait(t, kT);
  t.Do(NoticeFor(t, 1, "a"));
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 77u);
  EXPECT_EQ(t.broker.Stats().queues, 0u);
  t.Do(NoticeFor(t, 1, "a"));
  EXPECT_TRUE(t.commands.empty()) << "told twice is no news";
}

// The store's clock may have been set since we last heard from it, so no stamp says how old a notice is: it is no older
// than what we sent while the store still said "waits".
TEST(Queue, ANoticeIsDatedByWhenTheStoreLastSaidThatItWaits) {
  Table t;
  Wait(t, kT);
  const Instant asked = t.now;
  t.now += seconds(5);
  auto notice = NoticeFor(t, 1, "a");
  notice.since.us += 3'000'000;
  notice.made += seconds(3);
  t.Do(notice);
  t.Event<Granted>(1, 1);
  t.Do(StoreDown{"gone"});
  t.Pass(asked + kT - kMargin - milliseconds(6) - t.now);
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Pass(milliseconds(6));
  EXPECT_EQ(t.Events<Lost>(), 1u);
}

TEST(Queue, AGrantAfterTheLastTendIsNoOlderThanThatTend) {
  for (const bool later : {false, true}) {
    Table t;
    Wait(t, kT);
    t.Pass(seconds(12));
    t.Reply(t.Take<StoreTend>().op,
            TendDone{.holders = {HolderView{.owner = Owner(99), .time_left = kT}}, .as_of = 76});
    t.now += seconds(1);
    auto notice = NoticeFor(t, 1, "a");
    notice.token = later ? 77 : 76;
    t.Do(notice);
    EXPECT_EQ(t.Events<Granted>(), later ? 1u : 0u);
    EXPECT_EQ(t.Count<StoreAcquire>(), later ? 0u : 1u) << "its age is not known, so the store is asked again";
  }
}

TEST(Queue, AnOldNoticeIsConfirmedFirst) {
  Table t;
  Wait(t, kT);
  t.now += kT - seconds(1);
  t.Do(NoticeFor(t, 1, "a"));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  const auto acquire = t.Take<StoreAcquire>();
  EXPECT_EQ(acquire.owner, Owner(1));
  t.Reply(acquire.op, AcquireGranted{77, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 77u);
}

TEST(Queue, ANoticeForNobodyIsGivenBack) {
  Table t;
  t.StoreComesUp();
  t.Do(NoticeFor(t, 5, "a"));
  const auto withdraw = t.Take<StoreWithdraw>();
  EXPECT_EQ(withdraw.owner, Owner(5));
  t.Reply(withdraw.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Queue, ANoticeThatRepeatsADetachedGrantIsNotGivenBack) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(3, 1, "a", 1);
  t.Do(want);
  t.GrantNext(77);
  t.Event<Granted>(3, 1);
  t.Do(NoticeFor(t, 1, "a"));
  EXPECT_TRUE(t.commands.empty());
}

TEST(Queue, ReleasingHandsOffToAWaiterHereInTheSameReply) {
  Table t;
  Wait(t, kT);
  t.Open(2);
  t.Hold(2, 5, "other", 2);
  t.Do(Release{.session = 2, .request = 6, .acquire = 5, .name = {}});
  const auto release = t.Take<StoreRelease>();
  t.Reply(release.op,
          GiveBackDone{.was_holder = true,
                       .next = {HolderView{.owner = Owner(1), .token = 78, .since = t.StoreNow(), .ttl = kT}}});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 78u);
  EXPECT_EQ(t.Count<StoreAcquire>() + t.Count<StoreRenew>() + t.Count<StoreTend>(), 0u);
}

TEST(Queue, IsTendedWhenTheHoldersTtlEnds) {
  Table t;
  Wait(t, seconds(4));
  t.Pass(seconds(4));
  EXPECT_EQ(t.Count<StoreTend>(), 0u);
  t.Pass(milliseconds(50));
  ASSERT_EQ(t.Count<StoreTend>(), 1u);
  const auto tend = t.Take<StoreTend>();
  t.Reply(tend.op, TendDone{.holders = {HolderView{
                                .owner = Owner(1), .token = 79, .since = t.StoreNow(), .ttl = kT, .time_left = kT}}});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 79u);
}

// Another tend has been sent since, and its answer is still to come.
TEST(Queue, ATendThatWasOvertakenShowsAGrantAsWell) {
  Table t;
  Wait(t, kT);
  t.Do(ChannelUp{});
  const auto earlier = t.Take<StoreTend>();
  t.Do(ChannelUp{});
  t.Reply(earlier.op,
          TendDone{.holders = {
                       HolderView{.owner = Owner(1), .token = 79, .since = t.StoreNow(), .ttl = kT, .time_left = kT}}});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 79u);
}

GrantNotice BlockOf(const Table& t, Duration block) {
  return GrantNotice{Name("a"), OwnerId{}, 0, t.StoreNow(), block, t.now};
}

TEST(Queue, IsTendedWhenABlockEndsThatItWasToldOf) {
  Table t;
  Wait(t, kT);
  t.Do(BlockOf(t, seconds(2)));
  t.Pass(seconds(2));
  EXPECT_EQ(t.Count<StoreTend>(), 0u);
  t.Pass(milliseconds(50));
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
  EXPECT_EQ(t.Count<StoreWithdraw>() + t.Events<Granted>(), 0u) << "it is no grant";
}

TEST(Queue, ABlockThatCrossesALookIsLookedAtAgain) {
  Table t;
  Wait(t, kT);
  t.Do(ChannelUp{});
  const auto before = t.Take<StoreTend>();
  t.Do(BlockOf(t, seconds(2)));
  const auto after = t.Take<StoreTend>();
  t.Reply(before.op, TendDone{.holders = {HolderView{.owner = Owner(99), .time_left = kT}}});
  t.Reply(after.op, TendDone{.holders = {HolderView{.owner = {}, .time_left = seconds(2)}}});
  t.Pass(milliseconds(2'050));
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

TEST(Queue, ABlockToldBeforeThePlaceIsLookedAt) {
  OneSession t(SessionKind::kHold);
  t.Do(t.Want(1, 1, "a", 1));
  const auto ask = t.Take<StoreAcquire>();
  t.now += milliseconds(1);
  t.Do(BlockOf(t, seconds(2)));
  t.Reply(ask.op, AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = kT}}, 1});
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

TEST(Queue, ABlockOfALockThatNobodyHereWantsIsNothing) {
  Table t;
  t.StoreComesUp();
  t.Do(BlockOf(t, seconds(2)));
  EXPECT_TRUE(t.commands.empty());
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

TEST(Queue, AWaitingBrokerCostsTheStoreLittle) {
  Table t;
  Wait(t, kT);
  int tends = 0;
  for (int i = 0; i < 60; ++i) {
    t.Pass(seconds(1));
    while (t.Count<StoreTend>() > 0) {
      ++tends;
      t.Reply(t.Take<StoreTend>().op, TendDone{.holders = {HolderView{.owner = Owner(99), .time_left = kT}}});
    }
  }
  EXPECT_LE(tends, 7);
  EXPECT_GE(tends, 5);
}

TEST(Queue, ALostPlaceIsTakenAgainInTheOldOrder) {
  Table t;
  Wait(t, kT);
  t.Open(2, SessionKind::kHold);
  t.Do(t.Want(2, 1, "a", 2));
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{1, {HolderView{.owner = Owner(99), .time_left = kT}}, 2});
  t.Do(ChannelUp{});
  const auto tend = t.Take<StoreTend>();
  EXPECT_EQ(tend.asked, std::vector{Owner(1)});
  // A holder in it hands nothing to a waiter without a place.
  t.Reply(tend.op, TendDone{.slot_was_gone = true, .holders = {{.owner = Owner(1), .token = 7, .ttl = kT}}});
  EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(1));
  EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(2));
}

// It may have forgotten the place of one that stands in the middle, and the next tend names only the first.
TEST(Queue, AnotherServerIsAskedForAllPlacesInTheirOrder) {
  for (const bool another : {false, true}) {
    Table t;
    Wait(t, kT);
    t.Open(2, SessionKind::kHold);
    t.Do(t.Want(2, 1, "a", 2));
    t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{1, {HolderView{.owner = Owner(99), .time_left = kT}}, 2});
    t.Do(StoreDown{"gone"});
    t.Do(StoreUp{.renew_all = another});
    EXPECT_EQ(t.Count<StoreTend>(), another ? 0u : 1u);
    ASSERT_EQ(t.Count<StoreAcquire>(), another ? 2u : 0u);
    if (!another) continue;
    EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(1));
    EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(2));
  }
}

TEST(Queue, AServerThatIsFullEndsNoWait) {
  for (const bool store_is_full : {false, true}) {
    Table t;
    Wait(t, kT);
    t.Do(StoreDown{"gone"});
    t.Do(StoreUp{.renew_all = true});
    const OpId op = t.Take<StoreAcquire>().op;
    store_is_full ? t.Reply(op, StoreFailed{FailureKind::kFull, "out of memory"}) : t.Reply(op, AcquireQueueFull{9});
    t.Pass(seconds(2));
    EXPECT_EQ(t.Events<Refused>(), 0u);
    EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(1));
  }
}

// Another server may give away what it has, so that it is to end first.
TEST(Queue, WhoHasItInAHoldOffWaitsAsLongAsItLikes) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(3, 1, "a", 1);
  want.max_wait = seconds(60);
  t.Do(want);
  for (int i = 0; i < 12; ++i) {
    if (t.Count<StoreAcquire>() > 0) t.Reply(t.Take<StoreAcquire>().op, AcquireHeld{.held_off = seconds(20)});
    t.Pass(seconds(1));
  }
  EXPECT_EQ(t.Events<Refused>(), 0u);
  EXPECT_EQ(t.Events<Queued>(), 1u);
}

TEST(Queue, AWaiterIsToldItsPlaceOnlyOnce) {
  Table t;
  Wait(t, kT);
  t.Do(ChannelUp{});
  t.Reply(t.Take<StoreTend>().op, TendDone{.slot_was_gone = true});
  t.QueueNext(kT);
  EXPECT_EQ(t.Events<Queued>(), 0u);
}

TEST(Queue, AWaiterOutlivesAStoreThatIsAwayForLong) {
  Table t;
  Wait(t, kT);
  t.Do(StoreDown{"gone"});
  t.Pass(seconds(120));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

// A detached request that waits in the store's queue.
Acquire WaitDetached(Table& t) {
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  t.QueueNext(kT);
  return want;
}

TEST(Queue, ANoticeDuringAWithdrawalGrantsNothingToTheRepeat) {
  Table t;
  auto want = WaitDetached(t);
  t.Do(StreamEnded{1});
  const auto withdraw = t.Take<StoreWithdraw>();
  want.session = 2;
  t.Do(want);
  t.Do(NoticeFor(t, 1, "a"));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Reply(withdraw.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u);
}

// Notices and answers come in no common order: the fencing token says which grant came first.
TEST(Queue, ANoticeOlderThanThePlaceIsNoNews) {
  Table t;
  auto want = WaitDetached(t);
  const auto notice = NoticeFor(t, 1, "a");
  t.now += milliseconds(1);
  t.Do(StreamEnded{1});
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_holder = true});
  want.session = 2;
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {HolderView{.time_left = kT}}, 1, {}, notice.token});
  t.Do(notice);
  EXPECT_EQ(t.Events<Granted>(), 0u) << "that grant was withdrawn";
  auto later = NoticeFor(t, 1, "a");
  later.token = notice.token + 1;
  t.Do(later);
  EXPECT_EQ(t.Events<Granted>(), 1u);
}

TEST(Queue, ANoticeThatOvertakesThePlaceIsLookedInto) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(1, 1, "a", 1);
  t.Do(want);
  t.now += milliseconds(1);
  t.Do(NoticeFor(t, 1, "a"));
  t.QueueNext(kT);
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

TEST(Queue, AnOldNoticeForNobodyIsLeftToTheTtl) {
  Table t;
  t.StoreComesUp();
  const auto notice = NoticeFor(t, 5, "a");  // made now
  t.now += kT;
  t.Do(notice);
  EXPECT_TRUE(t.commands.empty()) << "its owner may have renewed it through another broker";
}

}  // namespace
}  // namespace distlock::core
