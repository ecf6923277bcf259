// SPDX-License-Identifier: Apache-2.0
//
// Downgrade: asked of the store until the outcome is known.
#include "table.h"

namespace distlock::core {
namespace {

using Result = DowngradeDone::Result;

Downgrade ByName(const Granted& granted, SessionId session = 9) {
  return {.session = session,
          .request = 1,
          .name = granted.name,
          .owner = granted.owner,
          .token = granted.token,
          .info = "+"};
}

TEST(Downgrade, OfASessionsLeaseByItsAcquire) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Do(Downgrade{.session = 1, .request = 8, .acquire = 7, .name = {}, .info = "+"});
  const auto ask = t.Take<StoreDowngrade>();
  EXPECT_EQ(ask.name, granted.name);
  EXPECT_EQ(ask.owner, granted.owner);
  EXPECT_EQ(ask.token, granted.token);
  EXPECT_EQ(ask.info, "+");
  EXPECT_EQ(t.Events<Downgraded>(), 0u);
  t.Reply(ask.op, DowngradeDone{.result = Result::kDowngraded, .next = {}});
  EXPECT_EQ(t.Event<Downgraded>(1, 8).token, granted.token);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Downgrade, WhatIsNotHeldIsRefused) {
  OneSession t;
  t.Do(Downgrade{.session = 1, .request = 8, .acquire = 7, .name = {}, .info = {}});
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kNotHolder);
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.next = {}});
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kNotHolder);
  t.Do(Downgrade{.session = 10, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.result = Result::kAnotherMode, .next = {}});
  EXPECT_EQ(t.Event<Refused>(10, 1).reason, RefusalReason::kNotSupported);
}

// The one that has the stream would never hear of it, and its client neither.
// Several servers are unavailable as a quorum, whoever is refused for it.
TEST(Downgrade, WithoutAnAnswerIsRefusedByTheNameOfItsStore) {
  for (const bool quorum : {false, true}) {
    OneSession t(SessionKind::kSession, BrokerConfig{.store = {.is_quorum = quorum}});
    const auto granted = t.Hold(1, 7, "a", 1);
    t.Do(StoreDown{"gone"});
    t.Do(ByName(granted));
    t.Pass(BrokerConfig{}.store_timeout);
    EXPECT_EQ(t.Event<Refused>(9, 1).reason,
              quorum ? RefusalReason::kQuorumNotReached : RefusalReason::kStoreUnavailable);
  }
}

TEST(Downgrade, OfAStreamOfAnotherBrokerIsRefusedOnceTheStoreSaysThatItIsHeld) {
  Table t;
  t.StoreComesUp();
  const auto ask = [&](SessionId session, const OwnerId& owner) {
    t.Do(Downgrade{.session = session, .request = 1, .name = Name("a"), .owner = owner, .token = 5, .info = {}});
    return t.Take<StoreDowngrade>();
  };
  const auto elsewhere = ask(9, Owner(1));
  EXPECT_TRUE(elsewhere.elsewhere);
  t.Reply(elsewhere.op, DowngradeDone{.result = Result::kElsewhere, .next = {}});
  const auto refused = t.Event<Refused>(9, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kNotSupported);
  EXPECT_NE(refused.cause.find("adopt it into a session here"), std::string::npos);
  for (const uint8_t mark : {kDetachedMark, kRepeatableMark}) {
    OwnerId detached = Owner(1);
    detached[0] = mark;
    EXPECT_FALSE(ask(mark, detached).elsewhere) << "any broker serves a detached lease";
  }
}

TEST(Downgrade, OfAStreamThatIsHereIsDoneHowItIsNamed) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Do(ByName(granted));
  EXPECT_FALSE(t.Take<StoreDowngrade>().elsewhere);
}

TEST(Downgrade, AnUnknownOutcomeIsAskedAgain) {
  OneSession t(SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  t.Do(ByName(granted));
  t.Reply(t.Take<StoreDowngrade>().op, StoreUnknown{"reset"});
  EXPECT_EQ(t.Events<Downgraded>() + t.Events<Refused>(), 0u);
  t.Pass(milliseconds(100));
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.result = Result::kDowngraded, .next = {}});
  t.Event<Downgraded>(9, 1);
}

TEST(Downgrade, WithoutTheStoreItIsSaidThatItIsNotKnown) {
  OneSession t(SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  t.Do(StoreDown{"gone"});
  t.Do(ByName(granted));
  EXPECT_EQ(t.Count<StoreDowngrade>(), 0u);
  t.Pass(milliseconds(4900));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(milliseconds(200));
  const auto refused = t.Event<Refused>(9, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable);
  EXPECT_NE(refused.cause.find("not known"), std::string::npos);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreDowngrade>(), 0u);
}

TEST(Downgrade, AStoreThatComesBackIsAskedAtOnce) {
  Table t;
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.StoreComesUp();
  EXPECT_EQ(t.Take<StoreDowngrade>().token, 5u);
}

TEST(Downgrade, WhatIsGivenBackIsNotDowngraded) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Do(StreamEnded{1});  // its client may still believe
  t.Do(ByName(granted));
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kNotHolder);
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
  t.Do(ByName(granted, 10));
  EXPECT_EQ(t.Event<Refused>(10, 1).reason, RefusalReason::kNotHolder);
  EXPECT_EQ(t.Count<StoreDowngrade>(), 0u);
}

TEST(Downgrade, ThatIsRefusedLeavesWhatMayBeTakenAgain) {
  OneSession t;
  Acquire in = t.Want(1, 7, "a", 1);
  in.reentry = "me";
  in.want = {.mode = Mode::kPermit, .permits = 2, .limit = 5};
  t.Do(in);
  t.GrantNext(42);
  t.Event<Granted>(1, 7);
  t.Do(Downgrade{.session = 1, .request = 20, .acquire = 7, .name = {}, .info = {}});
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.result = Result::kAnotherMode, .next = {}});
  EXPECT_EQ(t.Event<Refused>(1, 20).reason, RefusalReason::kNotSupported);
  in.request = 8;
  t.Do(in);
  EXPECT_EQ(t.Events<Refused>(), 0u) << "it is held as before";
  const auto again = t.Event<Granted>(1, 8);
  EXPECT_EQ(again.mode, Mode::kPermit);
  EXPECT_EQ(again.hold_count, 2u);
}

TEST(Downgrade, LetsOwnReadersIn) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Open(2);
  auto want = t.Want(2, 3, "a", 2);
  want.want.mode = Mode::kShared;
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{.holders = {}, .queue_length = 1, .left = kT});
  t.Do(ByName(granted));
  const HolderView next{.owner = Owner(2), .token = granted.token + 1, .since = t.StoreNow(), .ttl = kT, .info = {}};
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.result = Result::kDowngraded, .next = {next}});
  EXPECT_EQ(t.Event<Granted>(2, 3).token, granted.token + 1);
  t.Event<Downgraded>(9, 1);
}

TEST(Downgrade, NobodyIsAnsweredWhoseStreamIsOver) {
  Table t;
  t.StoreComesUp();
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  const auto ask = t.Take<StoreDowngrade>();
  t.Do(StreamEnded{9});
  t.Reply(ask.op, StoreUnknown{"reset"});
  t.Pass(seconds(10));
  EXPECT_EQ(t.Count<StoreDowngrade>(), 0u);
  EXPECT_EQ(t.notes.size(), 0u);
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

TEST(Downgrade, OfWhatIsGivenBackMeansThatGrantOnly) {
  OneSession t;
  auto granted = t.Hold(1, 7, "a", 1);
  t.Do(StreamEnded{1});
  auto any = ByName(granted);
  any.token = 0;
  t.Do(any);
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kNotHolder);
  ++granted.token;  // which it was granted through another broker
  t.Do(ByName(granted));
  EXPECT_EQ(t.Take<StoreDowngrade>().token, granted.token);
}

TEST(Downgrade, OfWhatIsBeingReleasedMeansThatGrantOnly) {
  struct Case {
    uint64_t released, downgraded;
    bool refused;
  };
  for (const Case& c : {Case{42, 42, true}, {42, 0, true}, {0, 42, true}, {42, 43, false}}) {
    Table t;
    t.is_any_meant = c.released == 0 || c.downgraded == 0;
    t.StoreComesUp();
    t.Do(Release{.session = 8, .request = 1, .name = Name("a"), .owner = Owner(1), .token = c.released, .ttl = kT});
    t.Do(
        Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = c.downgraded, .info = {}});
    EXPECT_EQ(t.Events<Refused>(), c.refused ? 1u : 0u) << c.released << " and " << c.downgraded;
    EXPECT_EQ(t.Count<StoreDowngrade>(), c.refused ? 0u : 1u) << c.released << " and " << c.downgraded;
  }
}

TEST(Downgrade, AWithdrawalIsNoReasonToRefuseIt) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  t.Do(Cancel{1, 7});
  t.Event<Refused>(1, 7);
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u);
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .info = {}});
  EXPECT_EQ(t.Events<Refused>(), 0u);
  EXPECT_EQ(t.Count<StoreDowngrade>(), 1u) << "the store knows whether it holds";
}

TEST(Downgrade, TheSameRequestTwiceIsOne) {
  Table t;
  t.StoreComesUp();
  for (int i = 0; i < 2; ++i) {
    t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  }
  ASSERT_EQ(t.Count<StoreDowngrade>(), 1u);
  t.Reply(t.Take<StoreDowngrade>().op, DowngradeDone{.result = Result::kDowngraded, .next = {}});
  EXPECT_EQ(t.Events<Downgraded>(), 1u);
}

TEST(Downgrade, AStoreThatIsSilentIsAskedAgain) {
  Table t;
  t.StoreComesUp();
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  const auto first = t.Take<StoreDowngrade>();
  t.Pass(seconds(3));
  const auto second = t.Take<StoreDowngrade>();
  t.Reply(first.op, StoreUnknown{"reset"});
  t.Pass(milliseconds(500));
  EXPECT_EQ(t.Count<StoreDowngrade>(), 0u) << "the second is under way and will tell";
  t.Reply(second.op, DowngradeDone{.result = Result::kDowngraded, .next = {}});
  EXPECT_EQ(t.Event<Downgraded>(9, 1).token, 5u);
}

TEST(Downgrade, WhatTheStoreLastComplainedOfIsSaid) {
  Table t;
  t.StoreComesUp();
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  while (t.Events<Refused>() == 0) {
    while (t.Count<StoreDowngrade>() > 0)
      t.Reply(t.Take<StoreDowngrade>().op, StoreFailed{FailureKind::kUnavailable, "LOADING"});
    t.Pass(milliseconds(100));
  }
  const auto refused = t.Event<Refused>(9, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(refused.cause.find("LOADING"), 0u) << refused.cause;
}

TEST(Downgrade, OfAForeignKeyIsRefusedAtOnce) {
  Table t;
  t.StoreComesUp();
  t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
  t.Reply(t.Take<StoreDowngrade>().op, StoreFailed{FailureKind::kForeignKey, "a list"});
  const auto refused = t.Event<Refused>(9, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kForeignKey);
  EXPECT_EQ(refused.cause, "a list");
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

}  // namespace
}  // namespace distlock::core
