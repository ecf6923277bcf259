// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace distlock::core {
namespace {

HolderView Holder(int owner, Duration left = hours(1)) {
  return {.owner = Owner(owner), .token = 7, .since = {1}, .ttl = kT, .time_left = left, .info = "who"};
}

LockView Free() { return {.last_token = 7}; }
LockView HeldBy(int owner, Duration left = hours(1)) {
  return {.holders = {Holder(owner, left)}, .holder_count = 1, .last_token = 7};
}

struct WatchTable : Table {
  WatchTable() { StoreComesUp(); }
  void Watch(SessionId session) { Do(WatchLock{session, 1, Name("a")}); }
  void Change() { Do(ChangeNotice{Name("a")}); }
  void Show(LockView view) { Reply(Take<StoreWatch>().op, WatchDone{std::move(view)}); }
  // Session 1 watches "a", which was shown to it; a look may follow at once.
  void Shown(LockView view) {
    Watch(1);
    Show(std::move(view));
    Event<Changed>(1, 1);
    Pass(milliseconds(20));
  }
  size_t Looks() const { return Count<StoreWatch>(); }
};

TEST(Watch, ShowsTheLockAtFirst) {
  WatchTable t;
  t.Watch(1);
  t.Show(HeldBy(5));
  const LockView view = t.Event<Changed>(1, 1).view;
  EXPECT_EQ(view.name, Name("a"));
  ASSERT_EQ(view.holders.size(), 1u);
  EXPECT_EQ(view.holders[0].owner, Owner(5));
}

TEST(Watch, ANoticeIsLookedAt) {
  WatchTable t;
  t.Shown(Free());
  EXPECT_EQ(t.Looks(), 0u);
  t.Change();
  t.Show(HeldBy(5));
  EXPECT_EQ(t.Event<Changed>(1, 1).view.holders.size(), 1u);
}

TEST(Watch, ANoticeOfAnotherLockIsNone) {
  WatchTable t;
  t.Shown(Free());
  t.Do(ChangeNotice{Name("b")});
  EXPECT_EQ(t.Looks(), 0u);
}

TEST(Watch, OnlyChangesAreTold) {
  struct Case {
    const char* what;
    LockView before, after;
    bool told;
  };
  LockView other_info = HeldBy(5), queue = HeldBy(5), waiter = HeldBy(5), again = HeldBy(5), more = HeldBy(5);
  other_info.holders[0].info = "another";
  queue.queue_length = 1;
  waiter.waiters = {{.owner = Owner(6)}};
  again.holders[0].token = again.last_token = 8;
  more.holder_count = 2;
  LockView token = HeldBy(5), since = HeldBy(5), ttl = HeldBy(5), delay = HeldBy(5);
  token.holders[0].token = 6;
  since.holders[0].since.us = 2;
  ttl.holders[0].ttl = kT / 2;
  delay.holders[0].lock_delay = kT;
  LockView waiters_ttl = waiter, waiters_info = waiter;
  waiters_ttl.waiters[0].ttl = kT;
  waiters_info.waiters[0].info = "another";
  LockView forgotten = Free(), taken_and_freed = Free();
  forgotten.last_token = 0;
  taken_and_freed.last_token = 8;
  const Case cases[] = {
      {"nothing", HeldBy(5), HeldBy(5), false},
      {"renewed", HeldBy(5, seconds(1)), HeldBy(5), false},
      {"released", HeldBy(5), Free(), true},
      {"taken", Free(), HeldBy(5), true},
      {"handed on", HeldBy(5), HeldBy(6), true},
      {"by the same again", HeldBy(5), again, true},
      {"under another token", HeldBy(5), token, true},
      {"since another time", HeldBy(5), since, true},
      {"for less long", HeldBy(5), ttl, true},
      {"with a lock_delay", HeldBy(5), delay, true},
      {"its info", HeldBy(5), other_info, true},
      {"a waiter", HeldBy(5), waiter, true},
      {"that waits as before", waiter, waiter, false},
      {"that wants it for longer", waiter, waiters_ttl, true},
      {"that says otherwise who it is", waiter, waiters_info, true},
      {"a waiter far behind", HeldBy(5), queue, true},
      {"a holder that is not shown", HeldBy(5), more, true},
      {"the token after a day", Free(), forgotten, false},
      {"taken and freed meanwhile", Free(), taken_and_freed, true},
  };
  for (const Case& c : cases) {
    WatchTable t;
    t.Shown(c.before);
    t.Change();
    t.Show(c.after);
    EXPECT_EQ(t.Events<Changed>(), c.told ? 1u : 0u) << c.what;
  }
}

TEST(Watch, ANoticeDuringALookMakesOneMore) {
  WatchTable t;
  t.Shown(Free());
  for (int i = 0; i < 5; ++i) t.Change();
  ASSERT_EQ(t.Looks(), 1u) << "one at a time";
  t.Show(Free());
  t.Pass(milliseconds(20));
  ASSERT_EQ(t.Looks(), 1u);
  t.Show(HeldBy(5));
  EXPECT_EQ(t.Events<Changed>(), 1u);
  t.Pass(seconds(1));
  EXPECT_EQ(t.Looks(), 0u);
}

TEST(Watch, ChangesThatFollowFastAreLookedAtTogether) {
  WatchTable t;
  t.Shown(Free());
  size_t looks = 0;
  for (int i = 0; i < 1000; ++i) {
    t.Change();
    for (; t.Looks() > 0; ++looks) t.Show(HeldBy(i));
    t.Pass(milliseconds(1));
  }
  EXPECT_LE(looks, 51u);
  EXPECT_GE(looks, 49u);
}

TEST(Watch, ExpiryIsLookedForSinceNobodyTells) {
  WatchTable t;
  t.Shown(HeldBy(5, seconds(4)));
  t.Pass(seconds(3));
  EXPECT_EQ(t.Looks(), 0u);
  t.Pass(seconds(1));
  t.Show(Free());
  EXPECT_EQ(t.Event<Changed>(1, 1).view.holder_count, 0u);
}

TEST(Watch, TheFirstOfManyHoldersToEndIsLookedFor) {
  WatchTable t;
  LockView many = HeldBy(5);
  many.holders.push_back(Holder(6, seconds(2)));
  many.holder_count = 2;
  t.Shown(many);
  t.Pass(seconds(2));
  EXPECT_EQ(t.Looks(), 1u);
}

TEST(Watch, TheSlotIsRefreshedBeforeItEnds) {
  WatchTable t;
  t.Shown(Free());
  for (int i = 0; i < 3; ++i) {
    t.Pass(BrokerConfig{}.queue_slot / 3 + milliseconds(50));
    ASSERT_EQ(t.Looks(), 1u);
    t.Show(Free());
  }
  EXPECT_EQ(t.Events<Changed>(), 0u);
}

TEST(Watch, LooksAgainWhenTheStoreOrTheChannelIsBack) {
  WatchTable t;
  t.Shown(Free());
  t.Do(ChannelUp{});
  t.Show(Free());
  t.Do(StoreDown{"gone"});
  t.Pass(seconds(60));
  EXPECT_EQ(t.Looks(), 0u);
  t.StoreComesUp();
  t.Show(HeldBy(5));
  EXPECT_EQ(t.Events<Changed>(), 1u);
}

TEST(Watch, AChannelThatIsBackDuringALookMakesOneMore) {
  WatchTable t;
  t.Watch(1);
  t.Do(ChannelUp{});
  t.Show(Free());
  t.Pass(milliseconds(20));
  EXPECT_EQ(t.Looks(), 1u);
}

TEST(Watch, BeforeTheStoreCanBeReachedNothingIsTold) {
  Table t;
  t.Do(WatchLock{1, 1, Name("a")});
  t.Pass(seconds(60));
  EXPECT_TRUE(t.commands.empty() && t.notes.empty());
  t.StoreComesUp();
  t.Reply(t.Take<StoreWatch>().op, WatchDone{Free()});
  t.Event<Changed>(1, 1);
}

TEST(Watch, ALookThatFailsIsRepeated) {
  using Outcome = decltype(StoreReply::outcome);
  for (const Outcome& outcome :
       {Outcome(StoreUnknown{"lost"}), Outcome(StoreFailed{FailureKind::kUnavailable, ""}), Outcome(TendDone{})}) {
    WatchTable t;
    t.Watch(1);
    t.Reply(t.Take<StoreWatch>().op, outcome);
    EXPECT_EQ(t.Looks(), 0u) << "not at once";
    t.Pass(seconds(2));
    ASSERT_EQ(t.Looks(), 1u);
    t.Show(Free());
    t.Event<Changed>(1, 1);
  }
}

TEST(Watch, ALookWithoutAnAnswerIsGivenUp) {
  WatchTable t;
  t.Watch(1);
  const auto lost = t.Take<StoreWatch>();
  t.Pass(seconds(3));
  const auto look = t.Take<StoreWatch>();
  t.Reply(lost.op, WatchDone{HeldBy(5)});
  EXPECT_EQ(t.Events<Changed>(), 0u) << "older than the look that is under way";
  t.Reply(look.op, WatchDone{Free()});
  EXPECT_EQ(t.Events<Changed>(), 1u);
}

TEST(Watch, ForeignKeysEndIt) {
  WatchTable t;
  t.Watch(1);
  t.Watch(2);
  t.Reply(t.Take<StoreWatch>().op, StoreFailed{FailureKind::kForeignKey, "a list"});
  for (const SessionId session : {1, 2}) {
    const auto refused = t.Event<Refused>(session, 1);
    EXPECT_EQ(refused.reason, RefusalReason::kForeignKey);
    EXPECT_EQ(refused.cause, "a list");
  }
  EXPECT_EQ(t.broker.Stats().watches + t.broker.Stats().timers, 0u);
}

TEST(Watch, ManyStreamsShareTheLooks) {
  WatchTable t;
  t.Shown(Free());
  t.Watch(2);
  t.Show(Free());
  t.Event<Changed>(2, 1);
  EXPECT_EQ(t.Events<Changed>(), 0u) << "no news for the first";
  t.Pass(milliseconds(20));
  t.Change();
  EXPECT_EQ(t.Looks(), 1u);
  t.Show(HeldBy(5));
  t.Event<Changed>(1, 1);
  t.Event<Changed>(2, 1);
  EXPECT_EQ(t.broker.Stats().watches, 1u);
}

// The watch may be newer than that look.
TEST(Watch, WhoComesDuringALookIsShownTheNextOne) {
  WatchTable t;
  t.Shown(Free());
  t.Change();
  t.Watch(2);
  t.Show(HeldBy(5));
  t.Event<Changed>(1, 1);
  EXPECT_EQ(t.Events<Changed>(), 0u);
  t.Pass(milliseconds(20));
  t.Show(HeldBy(5));
  t.Event<Changed>(2, 1);
  EXPECT_EQ(t.Events<Changed>(), 0u);
}

TEST(Watch, EndsWithItsLastStream) {
  WatchTable t;
  t.Shown(Free());
  t.Watch(2);
  t.Do(StreamEnded{1});
  EXPECT_EQ(t.broker.Stats().watches, 1u);
  t.Do(StreamEnded{2});
  EXPECT_EQ(t.broker.Stats().watches + t.broker.Stats().timers, 0u);
  t.Show(Free());
  t.Change();
  EXPECT_TRUE(t.commands.empty() && t.notes.empty());
}

TEST(Watch, ADrainEndsIt) {
  WatchTable t;
  t.Shown(Free());
  t.Do(Drain{seconds(30)});
  EXPECT_EQ(t.Event<EndStream>(1, 0).why, StreamEnd::kDrained);
  EXPECT_EQ(t.broker.Stats().watches, 0u);
  EXPECT_EQ(t.drains, 1);
  t.Watch(2);
  EXPECT_EQ(t.Event<Refused>(2, 1).reason, RefusalReason::kDraining);
  t.Do(StreamEnded{1});
  t.Do(StreamEnded{2});
}

TEST(Watch, AStreamWatchesOneLock) {
  WatchTable t;
  t.Shown(Free());
  t.Do(WatchLock{1, 2, Name("b")});
  EXPECT_EQ(t.Looks(), 0u);
  EXPECT_EQ(t.broker.Stats().watches, 1u);
  t.Change();
  t.Show(HeldBy(5));
  EXPECT_EQ(t.Event<Changed>(1, 1).view.name, Name("a"));
}

}  // namespace
}  // namespace distlock::core
