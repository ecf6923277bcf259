// SPDX-License-Identifier: Apache-2.0
//
// Readers of one lock behind one hold in the store: what the store is told, and how that ends.
#include <functional>

#include "covering.h"

namespace distlock::core {
namespace {

TEST(Covers, TheStoreIsToldOfOneWhoIsPresent) {
  Reading t;
  const Granted second = t.Join(2);
  t.Join(3);
  t.Leave(1);
  t.Pass(kLinger / 2);
  const auto note = t.Take<StoreNote>();
  EXPECT_TRUE(note.readers.empty());
  EXPECT_TRUE(note.covers);
  EXPECT_EQ(note.from, Owner(1));
  EXPECT_EQ(note.owner, Owner(2)) << "the first of them, so that the tokens that the store sees grow";
  EXPECT_EQ(note.token, second.token);
  t.Recall();
  EXPECT_EQ(t.Count<StoreNote>(), 0u) << "whom the store knows is not certain";
  t.Reply(note.op, NoteDone{.is_noted = true, .next = {}});
  const auto spread = t.TakeSpread({2, 3});
  EXPECT_EQ(spread.from, Owner(2));
}

TEST(Covers, ANoteThatIsRefusedEndsAllLeases) {
  Reading t;
  t.Join(2);
  t.Join(3);
  t.Leave(1);
  t.Pass(kLinger / 2);
  t.Reply(t.Take<StoreNote>().op, NoteDone{.next = {}});
  EXPECT_EQ(t.Event<Lost>(1, 2).reason, LostReason::kTaken);
  EXPECT_EQ(t.Event<Lost>(1, 3).reason, LostReason::kTaken);
  EXPECT_EQ(t.Kept(), 0u);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

TEST(Covers, ASpreadIsRepeatedUntilItIsAnsweredAndCountsFromTheFirst) {
  Reading t;
  t.Join(2);
  t.Pass(milliseconds(10));
  t.Recall();
  const Instant sent = t.now;
  t.Reply(t.TakeSpread({1, 2}).op, StoreUnknown{"reset"});
  t.Pass(seconds(1));
  auto again = t.TakeSpread({1, 2});
  while (t.Count<StoreNote>() > 0) again = t.Take<StoreNote>();
  t.Spread(again);
  EXPECT_EQ(t.Kept(), 0u);
  // Both are renewed by themselves; without answers belief ends a ttl after the first attempt.
  uint64_t beats = 0;
  const auto pass_until = [&](Instant end) {
    while (t.now < end) {
      t.Pass(std::min<Duration>(seconds(1), end - t.now));
      t.Do(Heartbeat{1, ++beats});
    }
  };
  t.Do(Heartbeat{1, ++beats});
  pass_until(sent + kT - kMargin - milliseconds(1));
  size_t renewed = 0;
  while (t.Count<StoreRenew>() > 0) renewed += t.Take<StoreRenew>().items.size();
  EXPECT_GE(renewed, 2u);
  EXPECT_EQ(t.Events<Lost>(), 0u);
  pass_until(sent + kT - kMargin);
  EXPECT_EQ(t.Events<Lost>(), 2u);
}

TEST(Covers, ASpreadThatIsRefusedEndsAllLeases) {
  Reading t;
  t.Join(2);
  t.Recall();
  t.Reply(t.TakeSpread({1, 2}).op, NoteDone{.next = {}});
  EXPECT_EQ(t.Events<Lost>(), 2u);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  EXPECT_EQ(t.Kept(), 0u);
}

TEST(Covers, ItIsSpreadWhenALeaseOfItsIsToDoAnythingElse) {
  struct Case {
    const char* what;
    std::function<void(Reading&)> deed;
  };
  const Case kCases[] = {
      {"released by name",
       [](Reading& t) { t.Do(core::Release{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(2)}); }},
      {"a goodbye", [](Reading& t) { t.Do(Goodbye{1}); }},
      {"renewed by a caller",
       [](Reading& t) { t.Do(Renew{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(2), .ttl = kT}); }},
      {"taken over",
       [](Reading& t) {
         t.Open(7);
         t.Do(Adopt{.session = 7,
                    .request = 1,
                    .name = Name("a"),
                    .from = Owner(2),
                    .token = t.first.token + 1,
                    .owner = Owner(5),
                    .ttl = kT,
                    .want = {.mode = Mode::kShared}});
       }},
      {"taken by force",
       [](Reading& t) {
         t.Do(ForceRelease{
             .session = 9, .request = 1, .name = Name("a"), .owner = Owner(2), .token = t.first.token + 1});
       }},
      {"another broker was asked", [](Reading& t) { t.Do(SettleNotice{Name("a"), Owner(1), t.first.token}); }},
      {"several locks", [](Reading& t) { t.Do(AcquireAll{{t.Read(8), t.Want(1, 9, "b", 9)}}); }},
      {"a drain", [](Reading& t) { t.Do(Drain{seconds(5)}); }},
      {"the clock was set", [](Reading& t) { t.Do(StoreClockStep{seconds(1)}); }},
      {"another primary", [](Reading& t) { t.Do(StoreUp{.renew_all = true}); }},
      {"one who lost it",
       [](Reading& t) { t.Do(core::Release{.session = 1, .request = 99, .acquire = 2, .lapsed = true}); }},
      {"a broken stream",
       [](Reading& t) {
         t.Do(StreamEnded{1});
         t.Pass(kLinger);
       }},
  };
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.what);
    Reading t;
    t.Join(2);
    one.deed(t);
    EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreAdopt>() + t.Count<StoreForce>(), 0u);
    t.Spread(t.TakeSpread({1, 2}));
  }
}

TEST(Covers, WhoeverLooksIsShownAllReaders) {
  const Input kLooks[] = {BeforeLook{Name("a")}, BeforeLook{},
                          WatchLock{.session = 7, .request = 1, .name = Name("a")}};
  for (const Input& look : kLooks) {
    Reading t;
    t.Join(2);
    t.Do(BeforeLook{Name("b")});
    EXPECT_EQ(t.commands.size(), 0u);
    t.Do(look);
    t.TakeSpread({1, 2});
  }
}

TEST(Covers, AStoreThatIsAwayIsToldLater) {
  Reading t;
  t.Join(2);
  t.Do(StoreDown{"away"});
  t.Do(t.Read(3));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_EQ(t.commands.size(), 0u);
  t.Do(StoreUp{});
  t.TakeSpread({1, 2});
}

TEST(Covers, ALeaseThatWasTakenMoreThanOnceLeavesWithTheLastRelease) {
  Reading t;
  Acquire in = t.Read(2);
  in.reentry = "me";
  t.Do(in);
  EXPECT_EQ(t.Event<Granted>(1, 2).hold_count, 1u);
  in.request = 3;
  in.owner = Owner(3);
  t.Do(in);
  EXPECT_EQ(t.Event<Granted>(1, 3).hold_count, 2u);
  t.Release(2);
  EXPECT_EQ(t.Event<Released>(1, 102).outcome, ReleaseOutcome::kStillHeld);
  t.Leave(3);
  t.Leave(1);
  EXPECT_EQ(t.commands.size(), 0u);
}

TEST(Covers, OnlyWhereLocksAreKept) {
  OneSession t;
  Acquire in = t.Want(1, 1, "a", 1);
  in.want.mode = Mode::kShared;
  t.Do(in);
  EXPECT_FALSE(t.Take<StoreAcquire>().lingers);
  in = t.Want(1, 2, "a", 2);
  in.want.mode = Mode::kShared;
  t.Do(in);
  EXPECT_FALSE(t.Take<StoreAcquire>().lingers);
}

}  // namespace
}  // namespace distlock::core
