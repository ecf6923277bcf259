// SPDX-License-Identifier: Apache-2.0
//
// Readers of one lock behind one hold in the store.
#include <functional>

#include "covering.h"

namespace distlock::core {
namespace {

TEST(Covers, ReadersJoinAndLeaveWithoutTheStore) {
  Reading t;
  uint64_t last = t.first.token;
  for (RequestId request = 2; request < 10; ++request) {
    const Granted next = t.Join(request);
    EXPECT_EQ(next.token, last + 1);
    EXPECT_EQ(next.mode, Mode::kShared);
    last = next.token;
  }
  for (RequestId request = 1; request < 10; ++request) t.Leave(request);
  EXPECT_EQ(t.commands.size(), 0u);
  t.Pass(kLinger - milliseconds(1));
  EXPECT_EQ(t.commands.size(), 0u) << "it is kept for a moment";
  EXPECT_GT(t.Join(10).token, last);
  t.Leave(10);
  while (t.Count<StoreNote>() > 0) t.Reply(t.Take<StoreNote>().op, NoteDone{.is_noted = true, .next = {}});
  t.Pass(kLinger);
  const auto release = t.Take<StoreRelease>();
  t.Reply(release.op, GiveBackDone{.was_holder = true, .next = {}});
  EXPECT_EQ(t.Kept() + t.broker.Stats().pending_releases, 0u);
}

TEST(Covers, TokensAreReservedOrShownByTheClock) {
  Reading t;
  RequestId request = 2;
  for (; request < 2 + kReserved; ++request) t.Join(request);
  t.Do(t.Read(request));
  EXPECT_EQ(t.Events<Granted>(), 0u) << "the store's clock need not show more";
  EXPECT_TRUE(std::holds_alternative<StoreNote>(t.commands.at(0))) << "first the others";
  EXPECT_TRUE(std::holds_alternative<StoreAcquire>(t.commands.at(1)));
  Reading later;
  for (request = 2; request < 2 + kReserved; ++request) later.Join(request);
  later.Pass(milliseconds(1));
  EXPECT_LT(later.Join(request).token, static_cast<uint64_t>(later.StoreNow().us));
}

TEST(Covers, ReadersThatComeTogetherAwaitTheFirstOnesAnswer) {
  OneSession t(SessionKind::kSession, Lingering());
  for (RequestId request = 1; request < 4; ++request) {
    Acquire in = t.Want(1, request, "a", static_cast<int>(request));
    in.want.mode = Mode::kShared;
    t.Do(in);
  }
  ASSERT_EQ(t.Count<StoreAcquire>(), 1u);
  const auto token = static_cast<uint64_t>(t.StoreNow().us);
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{token, t.StoreNow(), {}, token + kReserved});
  EXPECT_EQ(t.Events<Granted>(), 3u);
  EXPECT_EQ(t.Event<Granted>(1, 3).token, token + 2);
  EXPECT_EQ(t.commands.size(), 0u);
}

TEST(Covers, WhoAwaitsAnAttemptAsksWhenItHasFailed) {
  struct Case {
    const char* what;
    std::function<void(Table&, const StoreAcquire&)> end;
  };
  const Case kCases[] = {
      {"granted beside others", [](Table& t, const StoreAcquire& ask) { t.Reply(ask.op, AcquireGranted{7, {}}); }},
      {"queued", [](Table& t, const StoreAcquire& ask) { t.Reply(ask.op, AcquireQueued{.holders = {}}); }},
      {"not known", [](Table& t, const StoreAcquire& ask) { t.Reply(ask.op, StoreUnknown{"reset"}); }},
      {"withdrawn", [](Table& t, const StoreAcquire&) { t.Do(Cancel{.session = 1, .acquire = 1}); }},
      {"no answer", [](Table& t, const StoreAcquire&) { t.Pass(kAttemptMax); }},
  };
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.what);
    OneSession t(SessionKind::kSession, Lingering());
    for (RequestId request = 1; request < 3; ++request) {
      Acquire in = t.Want(1, request, "a", static_cast<int>(request));
      in.want.mode = Mode::kShared;
      t.Do(in);
    }
    const auto ask = t.Take<StoreAcquire>();
    EXPECT_EQ(ask.owner, Owner(1));
    one.end(t, ask);
    t.Pass(milliseconds(0));
    bool asked = false;
    while (t.Count<StoreAcquire>() > 0) asked |= t.Take<StoreAcquire>().owner == Owner(2);
    EXPECT_TRUE(asked);
  }
}

TEST(Covers, TheStoreIsAskedForThoseWhoCannotJoin) {
  struct Case {
    const char* what;
    std::function<void(Acquire&)> change;
  };
  const Case kCases[] = {
      {"a writer", [](Acquire& in) { in.want.mode = Mode::kExclusive; }},
      {"permits", [](Acquire& in) { in.want = {.mode = Mode::kPermit, .limit = 2}; }},
      {"the request says so", [](Acquire& in) { in.may_linger = false; }},
      {"a delay after its end", [](Acquire& in) { in.lock_delay = seconds(1); }},
      {"a bound of the hold", [](Acquire& in) { in.max_hold = seconds(1); }},
      {"another ttl", [](Acquire& in) { in.ttl = kT - seconds(1); }},
      {"another caller renews it", [](Acquire& in) { in.detached = true; }},
      {"it may have to move without this broker", [](Acquire& in) { in.resume = true; }},
  };
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.what);
    Reading t;
    t.Join(2);
    Acquire in = t.Read(3);
    one.change(in);
    if (in.detached) in.session = 9;
    t.Do(in);
    ASSERT_EQ(t.commands.size(), 2u);
    EXPECT_TRUE(std::holds_alternative<StoreNote>(t.commands[0]));
    EXPECT_TRUE(std::holds_alternative<StoreAcquire>(t.commands[1]));
    t.TakeSpread({1, 2});
    t.Do(t.Read(4));
    EXPECT_EQ(t.Events<Granted>(), 0u) << "nobody joins any more";
  }
}

TEST(Covers, ARecallSpreadsItAndNobodyJoinsFromThenOn) {
  Reading t;
  const Granted second = t.Join(2);
  t.Pass(milliseconds(1));
  t.Recall();
  t.Do(t.Read(3));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_FALSE(t.Take<StoreAcquire>().lingers) << "not for a while";
  const auto spread = t.TakeSpread({1, 2});
  EXPECT_EQ(spread.from, Owner(1));
  EXPECT_EQ(spread.from_token, t.first.token);
  EXPECT_EQ(spread.last_token, second.token);
  t.Release(2);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "the store does not know it yet";
  t.Spread(spread);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(2));
  EXPECT_EQ(t.Kept(), 0u);
}

TEST(Covers, ARecallMayComeBeforeTheNewsOfTheGrant) {
  OneSession t(SessionKind::kSession, Lingering());
  Acquire in = t.Want(1, 1, "a", 1);
  in.want.mode = Mode::kShared;
  t.Do(in);
  t.Do(RecallNotice{Name("a")});
  const auto token = static_cast<uint64_t>(t.StoreNow().us);
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{token, t.StoreNow(), {}, token + kReserved});
  EXPECT_EQ(t.Take<StoreNote>().readers.size(), 1u);
}

TEST(Covers, AnIdleOneIsGivenBackWhenItIsWanted) {
  Reading t;
  t.Leave(1);
  t.Recall();
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(1));
  EXPECT_EQ(t.Kept(), 0u);
}

TEST(Covers, TheDeadlineOfWhoJoinsIsThatOfTheStoresHold) {
  Reading t;
  t.Pass(kLinger / 4);
  t.Do(Heartbeat{1, 1});
  const Granted second = t.Join(2);
  EXPECT_EQ(second.valid_for, Told(kV));
  // Without an answer of the store belief ends with the first lease's ttl.
  t.Do(StoreDown{"away"});
  for (int i = 0; i < 4; ++i) {
    t.Pass(seconds(2));
    t.Do(Heartbeat{1, static_cast<uint64_t>(2 + i)});
  }
  for (int i = 0; i < 3; ++i) {
    t.Pass(seconds(2));
    t.Do(Heartbeat{1, static_cast<uint64_t>(6 + i)});
  }
  t.Pass(kT - kMargin - seconds(14) - kLinger / 4 - milliseconds(1));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Events<Lost>(), 2u);
}

TEST(Covers, NobodyJoinsOneOfWhichLessThanHalfIsLeft) {
  Reading t;
  t.Leave(1);
  for (int i = 0; i < 6; ++i) {
    // The store does not answer who has it.
    t.Pass(kLinger / 4);
    t.Join(static_cast<RequestId>(i) + 2);
    t.Leave(static_cast<RequestId>(i) + 2);
  }
  EXPECT_EQ(t.Count<StoreNote>(), 1u) << "once it is repeated only when it is overdue";
}

TEST(Covers, AReaderThatStaysIsMadeKnown) {
  Reading t;
  t.Pass(kLinger / 2);
  t.Join(2);
  t.Pass(kLinger / 2);
  const auto spread = t.TakeSpread({1, 2});
  t.Pass(milliseconds(1));
  t.Spread(spread);
  t.Release(1);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(1));
  t.Do(t.Read(3));
  EXPECT_FALSE(t.Take<StoreAcquire>().lingers) << "not for a while";
}

}  // namespace
}  // namespace distlock::core
