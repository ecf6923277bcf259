// SPDX-License-Identifier: Apache-2.0
//
// Several locks of one request: all or nothing.
#include <set>

#include "several.h"

namespace distlock::core {
namespace {

TEST(Bundle, AllThatAreFreeAreTakenByOneCall) {
  Several t;
  t.Do(Heartbeat{1, 3});
  t.Do(t.All({"b", "a"}));
  EXPECT_EQ(t.Count<StoreAcquire>(), 0u);
  const auto all = t.Take<StoreAcquireAll>();
  ASSERT_EQ(all.items.size(), 2u);
  EXPECT_EQ(all.items[0].name, Name("a")) << "in the order of their names";
  t.Reply(all.op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  const auto a = t.Event<Granted>(1, 8);
  EXPECT_EQ(a.name, Name("a"));
  EXPECT_EQ(a.token, 41u);
  EXPECT_EQ(a.echo_seq, 3u);
  EXPECT_EQ(a.valid_for, Told(kV));
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 42u);
  EXPECT_EQ(t.broker.Stats().leases, 2u);
  t.Do(Release{.session = 1, .request = 20, .acquire = 8, .name = {}});
  EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(2)}) << "each is a lease of its own";
}

TEST(Bundle, ElseTheyAreTakenOneAfterTheOtherAndToldTogether) {
  Several t;
  t.Do(t.All({"b", "a", "c"}));
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{});
  const auto first = t.Take<StoreAcquire>();
  EXPECT_EQ(first.name, Name("a"));
  t.Reply(first.op, AcquireGranted{41, t.StoreNow()});
  const auto second = t.Take<StoreAcquire>();
  EXPECT_EQ(second.name, Name("b"));
  t.Reply(second.op, AcquireQueued{3, {}, 4, seconds(10)});
  EXPECT_EQ(t.Event<Queued>(1, 7).position, 3u) << "the one that is waited for";
  for (int i = 0; i < 6; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, static_cast<uint64_t>(i + 1)});
  }
  EXPECT_EQ(t.Take<StoreRenew>().items[0].name, Name("a")) << "what is taken is kept";
  EXPECT_EQ(t.Events<Granted>(), 0u);
  EXPECT_EQ(t.Event<HeartbeatAck>(1, 0).limits.size(), 0u);
  t.Do(GrantNotice{Name("b"), Owner(1), 42, t.StoreNow(), kT, t.now});
  const auto third = t.Take<StoreAcquire>();
  EXPECT_EQ(third.name, Name("c"));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Reply(third.op, AcquireGranted{43, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 42u);
  EXPECT_EQ(t.Event<Granted>(1, 9).token, 43u);
  const auto a = t.Event<Granted>(1, 8);
  EXPECT_EQ(a.token, 41u);
  EXPECT_EQ(a.echo_seq, 6u);
  EXPECT_EQ(a.waited, Told(seconds(6)));
}

TEST(Bundle, AMissedWaitGivesEverythingBack) {
  Several t(false);
  t.Do(t.All({"a", "b"}, seconds(4)));
  EXPECT_EQ(t.Count<StoreAcquireAll>(), 0u) << "they may be on different servers";
  t.GrantNext(41);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {}, 1, seconds(10)});
  t.Pass(seconds(2));
  t.Do(Heartbeat{1, 1});
  t.Pass(seconds(2));
  for (const RequestId request : {7, 8}) {
    const auto refused = t.Event<Refused>(1, request);
    EXPECT_EQ(refused.reason, RefusalReason::kWaitTimeout);
    EXPECT_EQ(refused.about, Name("b"));
    EXPECT_EQ(refused.waited, seconds(4));
  }
  EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(1)});
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(2));
  EXPECT_EQ(t.broker.Stats().waiters + t.broker.Stats().leases, 0u);
}

TEST(Bundle, OneTryTakesAllOrNone) {
  Several t(false);
  t.Do(t.All({"a", "b"}, Duration::zero()));
  t.GrantNext(41);
  const auto second = t.Take<StoreAcquire>();
  EXPECT_FALSE(second.wait);
  t.Reply(second.op, AcquireHeld{{}, 3, seconds(9)});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kLockHeld);
  EXPECT_EQ(t.Event<Refused>(1, 8).retry_after, seconds(9));
  EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(1)});
}

TEST(Bundle, CancellingOneCancelsAll) {
  Several t(false);
  t.Do(t.All({"a", "b"}));
  t.GrantNext(41);
  t.Do(Cancel{1, 7});
  for (const RequestId request : {7, 8}) EXPECT_EQ(t.Event<Refused>(1, request).reason, RefusalReason::kCancelled);
  EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(1)});
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(2));
}

TEST(Bundle, TheEndOfItsStreamGivesEverythingBackAtOnce) {
  for (const bool goodbye : {true, false}) {
    Several t(false);
    t.Do(t.All({"a", "b"}));
    t.GrantNext(41);
    goodbye ? t.Do(Goodbye{1}) : t.Do(StreamEnded{1});
    EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(1)}) << "nobody was promised anything";
    EXPECT_EQ(t.Count<StoreWithdraw>(), 1u);
  }
}

TEST(Bundle, APartThatIsLostEndsIt) {
  Several t(false);
  t.Do(t.All({"a", "b"}));
  t.GrantNext(41);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {}, 1, seconds(10)});
  for (int i = 0; i < 6; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, static_cast<uint64_t>(i + 1)});
  }
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kGone}});
  const auto refused = t.Event<Refused>(1, 8);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(refused.about, Name("a"));
  EXPECT_EQ(t.Events<Lost>(), 0u) << "nobody had it";
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(2));
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

TEST(Bundle, AnUnknownOutcomeIsFoundOutByAskingForEach) {
  Several t;
  t.Do(t.All({"a", "b"}));
  t.Reply(t.Take<StoreAcquireAll>().op, StoreUnknown{"reset"});
  t.GrantNext(41);
  t.GrantNext(42);
  EXPECT_EQ(t.Event<Granted>(1, 7).token, 41u);
  EXPECT_EQ(t.Event<Granted>(1, 8).token, 42u);
}

TEST(Bundle, WhatAnUnansweredCallMayHaveTakenIsGivenBack) {
  Several t;
  t.Do(t.All({"a", "b"}));
  const auto all = t.Take<StoreAcquireAll>();
  t.Do(Cancel{1, 7});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 2u);
  t.commands.clear();
  t.Reply(all.op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  EXPECT_EQ(t.broker.Stats().pending_releases, 2u) << "until the store has confirmed it";
}

// However long ago it ran: what it took stays taken for its ttl.
TEST(Bundle, WhatAnUnansweredCallMayHaveTakenIsGivenBackAlsoLongAfterIt) {
  for (const bool stream_ends : {true, false}) {
    Several t;
    t.Hold(1, 1, "x", 50);  // an answer, so that the store's clock is known
    t.Do(t.All({"a", "b"}));
    const auto ask = t.Take<StoreAcquireAll>();
    t.Do(StoreDown{"reset"});
    t.Reply(ask.op, StoreUnknown{"reset"});
    for (uint64_t i = 1; i <= 4; ++i) {
      t.Pass(seconds(1));
      t.Do(Heartbeat{1, i});
    }
    if (stream_ends) {
      t.Do(StreamEnded{1});
    } else {
      t.Pass(milliseconds(1500));
      EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kStoreUnavailable);
    }
    t.StoreComesUp();
    std::set<OwnerId> given_back;
    while (t.Count<StoreWithdraw>() > 0) {
      const auto withdraw = t.Take<StoreWithdraw>();
      given_back.insert(withdraw.owner);
      t.Reply(withdraw.op, GiveBackDone{.was_holder = true});
    }
    EXPECT_TRUE(given_back.contains(Owner(1)) && given_back.contains(Owner(2))) << stream_ends;
  }
}

TEST(Bundle, WhatAnUnansweredCallMayYetTakeIsGivenBackAlsoWhereTheLockWasFoundHeld) {
  Several t;
  t.Do(t.All({"a", "b"}, Duration::zero()));
  t.Reply(t.Take<StoreAcquireAll>().op, StoreUnknown{"reset"});
  t.Reply(t.Take<StoreAcquire>().op, AcquireHeld{{}, 3, seconds(9)});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kLockHeld);
  ASSERT_EQ(t.Count<StoreWithdraw>(), 2u) << "of the one that was held as well";
  for (int i = 0; i < 2; ++i) t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  t.Pass(seconds(3));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 2u) << "once more when it cannot take effect any more";
}

TEST(Bundle, DetachedOnesAreTheCallersFromTheGrantOn) {
  Several t(false);
  t.Do(Several::Detached(t.All({"a", "b"}), 5));
  const auto a = t.Take<StoreAcquire>();
  t.Reply(a.op, AcquireGranted{41, t.StoreNow()});
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {}, 1, seconds(10)});
  t.Pass(seconds(6));
  const auto renew = t.Take<StoreRenew>();
  EXPECT_EQ(renew.items[0].name, Name("a"));
  t.Reply(renew.op, RenewDoneBatch{{RenewResult::kRenewed}});
  t.Do(GrantNotice{Name("b"), a.owner, 42, t.StoreNow(), kT, t.now});
  OwnerId b = Owner(2);
  b[0] = kRepeatableMark;
  t.Do(GrantNotice{Name("b"), b, 42, t.StoreNow(), kT, t.now});
  const auto granted = t.Event<Granted>(5, 7);
  EXPECT_LT(granted.valid_for, kT) << "counted from the grant";
  EXPECT_EQ(t.Event<Granted>(5, 8).token, 42u);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  t.Do(StreamEnded{5});
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
}

TEST(Bundle, ARepeatOfADetachedRequestSharesWhatItHas) {
  Several t(false);
  t.Do(Several::Detached(t.All({"a", "b"}), 5));
  t.GrantNext(41);
  const auto b = t.Take<StoreAcquire>();
  t.Do(Several::Detached(t.All({"a", "b"}), 6));
  EXPECT_EQ(t.Count<StoreAcquire>(), 0u);
  t.Do(StreamEnded{5});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Reply(b.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(6, 7).token, 41u);
  EXPECT_EQ(t.Event<Granted>(6, 8).token, 42u);
  EXPECT_EQ(t.Events<Granted>(), 0u);
}

TEST(Bundle, ARequestIdForOtherLocksIsRefusedWhicheverComesFirst) {
  Several t(false);
  t.Do(Several::Detached(t.All({"a", "b"}), 5));
  t.GrantNext(41);
  AcquireAll other = Several::Detached(t.All({"a", "c"}), 6);
  other.parts[1].owner[1] = 9;
  t.Do(other);
  EXPECT_EQ(t.Event<Refused>(6, 7).reason, RefusalReason::kInvalidArgument);
  Acquire alone = Several::Detached(t.All({"x", "b"}), 7).parts[1];
  t.Do(alone);
  EXPECT_EQ(t.Event<Refused>(7, 8).reason, RefusalReason::kInvalidArgument);
  t.Do(Several::Detached(t.All({"a"}), 8).parts[0]);
  EXPECT_EQ(t.Event<Refused>(8, 7).reason, RefusalReason::kInvalidArgument) << "the bundle has taken it";

  Several late(false);
  late.Do(Several::Detached(late.All({"a", "b"}), 5));
  const auto a = late.Take<StoreAcquire>();
  late.Do(Several::Detached(late.All({"x", "b"}), 7).parts[1]);
  late.Reply(a.op, AcquireGranted{41, late.StoreNow()});
  EXPECT_EQ(late.Event<Refused>(5, 7).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(late.broker.Stats().waiters, 1u) << "the other one still waits";
}

TEST(Bundle, ADrainRefusesIt) {
  Several t(false);
  t.Do(t.All({"a", "b"}));
  t.Do(Several::Detached(t.All({"c", "d"}), 5));
  t.Do(Drain{seconds(1)});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kDraining);
  EXPECT_EQ(t.Event<Refused>(5, 8).reason, RefusalReason::kDraining);
  t.Do(t.All({"a", "b"}));
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kDraining);
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kDraining);
}

ForceRelease Forced(int owner, const std::string& key) {
  return {.session = 9,
          .request = 1,
          .name = Name(key),
          .owner = Owner(owner),
          .token = 41,
          .broker_id = "0123456789abcdef",
          .reason = "why"};
}

TEST(Bundle, APartThatIsTakenAwayEndsIt) {
  Several t(false);
  t.Do(t.All({"a", "b"}));
  t.GrantNext(41);
  t.Do(Forced(1, "a"));
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(t.Released(), std::vector<OwnerId>{Owner(1)});
}

TEST(Bundle, WhatMayBeGrantedAtThisMomentIsNotTakenAwayBehindItsBack) {
  Several t;
  t.Do(t.All({"a", "b"}));
  const auto all = t.Take<StoreAcquireAll>();
  t.Do(Forced(1, "a"));
  EXPECT_EQ(t.Count<StoreForce>(), 0u) << "the answer that grants it may be on its way";
  t.Reply(all.op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  t.Event<Granted>(1, 7);
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kForced);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "not before its promise has passed";
}

TEST(Bundle, AStoreThatDoesNotAnswerIsNotWaitedForForEver) {
  Several t;
  t.Do(t.All({"a", "b"}));
  t.Take<StoreAcquireAll>();
  for (int i = 0; i < 12; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, static_cast<uint64_t>(i + 1)});
  }
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(t.broker.Stats().waiters, 0u);
}

}  // namespace
}  // namespace distlock::core
