// SPDX-License-Identifier: Apache-2.0
//
// A session that takes again what it has.
#include "table.h"

namespace distlock::core {
namespace {

struct Nested : Table {
  Nested() {
    StoreComesUp();
    Open(1);
  }
  Acquire Again(RequestId request, int owner, const std::string& label = "me") {
    Acquire in = Want(1, request, "a", owner);
    in.reentry = label;
    return in;
  }
  // Request 7 has it.
  void Taken() {
    Do(Again(7, 1));
    Reply(Take<StoreAcquire>().op, AcquireGranted{42, StoreNow()});
    EXPECT_EQ(Event<Granted>(1, 7).hold_count, 1u);
  }
  // Requests 7, 8 and 9 have it.
  void TakenThrice() {
    Taken();
    Do(Again(8, 2));
    Do(Again(9, 3));
    notes.clear();
  }
};

TEST(Reentry, IsAnsweredAtOnceWithTheSameTokenAndACount) {
  Nested t;
  t.Taken();
  t.Do(Heartbeat{1, 4});
  t.Do(t.Again(8, 2));
  EXPECT_EQ(t.Count<StoreAcquire>(), 0u) << "the store has nothing to say about it";
  const auto granted = t.Event<Granted>(1, 8);
  EXPECT_EQ(granted.token, 42u);
  EXPECT_EQ(granted.owner, Owner(1));
  EXPECT_EQ(granted.hold_count, 2u);
  EXPECT_EQ(granted.echo_seq, 4u);
  EXPECT_EQ(granted.valid_for, Told(kV));
  t.Do(t.Again(9, 3));
  EXPECT_EQ(t.Event<Granted>(1, 9).hold_count, 3u);
}

TEST(Reentry, TheLastReleaseFreesIt) {
  for (const std::vector<RequestId>& order : {std::vector<RequestId>{7, 8, 9}, {9, 8, 7}, {8, 9, 7}}) {
    Nested t;
    t.TakenThrice();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(t.Count<StoreRelease>(), 0u);
      t.Do(Release{.session = 1, .request = 20 + i, .acquire = order[i], .name = {}});
      if (i == 2) break;
      EXPECT_EQ(t.Event<Released>(1, 20 + i).outcome, ReleaseOutcome::kStillHeld);
    }
    const auto release = t.Take<StoreRelease>();
    EXPECT_EQ(release.owner, Owner(1));
    t.Reply(release.op, GiveBackDone{.was_holder = true});
    EXPECT_EQ(t.Event<Released>(1, 22).outcome, ReleaseOutcome::kReleased);
    EXPECT_EQ(t.broker.Stats().leases, 0u);
  }
}

TEST(Reentry, OneThatIsNotHeldAnyMoreIsGone) {
  Nested t;
  t.TakenThrice();
  t.Do(Release{.session = 1, .request = 20, .acquire = 8, .name = {}});
  t.Do(Release{.session = 1, .request = 21, .acquire = 8, .name = {}});
  EXPECT_EQ(t.Event<Released>(1, 21).outcome, ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Reentry, IsOneLeaseToTheStore) {
  Nested t;
  t.TakenThrice();
  for (int i = 0; i < 7; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, static_cast<uint64_t>(i + 1)});
  }
  ASSERT_EQ(t.Count<StoreRenew>(), 1u);
  EXPECT_EQ(t.Take<StoreRenew>().items.size(), 1u);
}

TEST(Reentry, AllWhoHaveItAreToldOfItsEnd) {
  Nested t;
  t.TakenThrice();
  for (int i = 0; i < 7; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, static_cast<uint64_t>(i + 1)});
  }
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kGone}});
  for (const RequestId request : {7, 8, 9}) EXPECT_EQ(t.Event<Lost>(1, request).reason, LostReason::kTaken);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  t.Do(t.Again(10, 4));
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u) << "it is nobody's now";
}

TEST(Reentry, WhileTheFirstWaitsTheOthersShareItsPlace) {
  Nested t;
  t.Do(t.Again(7, 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Reply(ask.op, AcquireQueued{0, {}, 1, seconds(10)});
  Acquire soon = t.Again(8, 2);
  soon.max_wait = seconds(1);
  t.Do(soon);
  t.Do(t.Again(9, 3));
  EXPECT_EQ(t.Count<StoreAcquire>(), 0u);
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kWaitTimeout);
  t.Do(GrantNotice{Name("a"), Owner(1), 42, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Event<Granted>(1, 7).hold_count, 1u);
  EXPECT_EQ(t.Event<Granted>(1, 9).hold_count, 2u);
  EXPECT_EQ(t.Events<Granted>(), 0u);
}

TEST(Reentry, CancellingOneLeavesTheOthers) {
  Nested t;
  t.Do(t.Again(7, 1));
  t.Do(t.Again(8, 2));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(Cancel{1, 7});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled);
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(1, 8).hold_count, 1u);
  t.Do(t.Again(9, 3));
  t.Do(Cancel{1, 9});
  EXPECT_EQ(t.Event<Refused>(1, 9).reason, RefusalReason::kCancelled) << "the grant crossed it";
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Do(Cancel{1, 8});
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Reentry, UnderAnotherLabelOrByAnotherSessionIsAnother) {
  Nested t;
  t.Taken();
  t.Do(t.Again(8, 2, "you"));
  EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(2));
  t.Open(2);
  Acquire other = t.Again(9, 3);
  other.session = 2;
  t.Do(other);
  EXPECT_EQ(t.Take<StoreAcquire>().owner, Owner(3));
}

TEST(Reentry, AsAWriterWhatOneHasAsAReaderIsRefused) {
  Nested t;
  Acquire reader = t.Again(7, 1);
  reader.want.mode = Mode::kShared;
  t.Do(reader);
  t.GrantNext(42);
  t.Do(t.Again(8, 2));
  const auto refused = t.Event<Refused>(1, 8);
  EXPECT_EQ(refused.reason, RefusalReason::kNotSupported);
  EXPECT_NE(refused.cause.find("wait for ever"), std::string::npos) << refused.cause;
  EXPECT_EQ(t.Count<StoreAcquire>(), 0u);
}

TEST(Reentry, TheEndOfTheStreamAndGoodbyeEndItOnce) {
  for (const bool goodbye : {true, false}) {
    Nested t;
    t.TakenThrice();
    goodbye ? t.Do(Goodbye{1}) : t.Do(StreamEnded{1});
    if (!goodbye) t.Pass(kV);
    EXPECT_EQ(t.Count<StoreRelease>(), 1u);
    EXPECT_EQ(t.broker.Stats().leases, 0u);
  }
  Nested waiting;
  waiting.Do(waiting.Again(7, 1));
  waiting.Do(waiting.Again(8, 2));
  waiting.Do(StreamEnded{1});
  EXPECT_EQ(waiting.broker.Stats().waiters, 0u);
  EXPECT_EQ(waiting.Count<StoreWithdraw>(), 1u);
}

TEST(Reentry, AReleaseByOwnerEndsItForAll) {
  Nested t;
  t.TakenThrice();
  t.Do(Release{.session = 5, .request = 1, .acquire = 0, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT});
  for (const RequestId request : {7, 8, 9}) {
    EXPECT_EQ(t.Event<Released>(1, request).outcome, ReleaseOutcome::kReleased);
  }
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Reentry, WhatWasTakenTwiceIsNotDowngraded) {
  Nested t;
  t.TakenThrice();
  t.Do(Downgrade{.session = 1, .request = 20, .acquire = 8, .name = {}, .info = {}});
  EXPECT_EQ(t.Event<Refused>(1, 20).reason, RefusalReason::kNotSupported);
  EXPECT_EQ(t.Count<StoreDowngrade>(), 0u);
}

TEST(Reentry, WhatIsBeingDowngradedIsTakenAgainAsAReaderOnly) {
  Nested t;
  t.Taken();
  t.Do(Downgrade{.session = 1, .request = 20, .acquire = 7, .name = {}, .info = {}});
  EXPECT_EQ(t.Count<StoreDowngrade>(), 1u);
  t.Do(t.Again(8, 2));
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kNotSupported);
  Acquire reader = t.Again(9, 3);
  reader.want.mode = Mode::kShared;
  t.Do(reader);
  EXPECT_EQ(t.Event<Granted>(1, 9).mode, Mode::kShared);
}

TEST(Reentry, AllWhoHaveItAreToldThatItWasTakenAway) {
  Nested t;
  t.TakenThrice();
  t.Do(ForceRelease{
      .session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .broker_id = {}, .reason = "why"});
  for (const RequestId request : {7, 8, 9}) EXPECT_EQ(t.Event<Lost>(1, request).reason, LostReason::kForced);
}

TEST(Reentry, ADrainLosesItOnceForEachWhoHasIt) {
  Nested t;
  t.TakenThrice();
  t.Do(Drain{Duration::zero()});
  t.Pass(milliseconds(1));
  for (const RequestId request : {7, 8, 9}) EXPECT_EQ(t.Event<Lost>(1, request).reason, LostReason::kDrained);
  EXPECT_EQ(t.Events<Lost>(), 0u);
}

TEST(Reentry, OtherwiseThanItIsHeldIsRefusedAndSaysWhatToDo) {
  const Want writer{}, reader{.mode = Mode::kShared}, two{.mode = Mode::kPermit, .permits = 2, .limit = 5};
  Want three = two, of_more = two;
  three.permits = 3;
  of_more.limit = 6;
  struct Case {
    const char* what;
    Want has, wants;
    const char* advice;
  };
  const Case cases[] = {
      {"a reader as writer", reader, writer, "release it, acquire EXCLUSIVE"},
      {"a writer as reader", writer, reader, "downgrade it to SHARED"},
      {"a writer with permits", writer, two, "as it is held"},
      {"a reader with permits", reader, two, "as it is held"},
      {"permits as reader", two, reader, "as it is held"},
      {"permits as writer", two, writer, "as it is held"},
      {"other permits", two, three, "as it is held"},
      {"permits of another limit", two, of_more, "as it is held"},
  };
  for (const Case& c : cases) {
    Nested t;
    Acquire first = t.Again(7, 1), again = t.Again(8, 2);
    first.want = c.has;
    again.want = c.wants;
    t.Do(first);
    t.GrantNext(42);
    t.Do(again);
    const auto refused = t.Event<Refused>(1, 8);
    EXPECT_EQ(refused.reason, RefusalReason::kNotSupported) << c.what;
    EXPECT_NE(refused.cause.find(c.advice), std::string::npos) << c.what << ": " << refused.cause;
    EXPECT_TRUE(t.commands.empty()) << c.what;
    again.want = c.has;
    again.want.policy = Policy::kAdaptive;  // which counts for a place in the queue only
    t.Do(again);
    EXPECT_EQ(t.Event<Granted>(1, 8).hold_count, 2u) << c.what;
  }
}

TEST(Reentry, AReleaseByOwnerFromItsOwnSessionEndsItForAll) {
  Nested t;
  t.TakenThrice();
  t.Do(Release{.session = 1, .request = 20, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT});
  for (const RequestId request : {7, 8, 9}) {
    EXPECT_EQ(t.Event<Released>(1, request).outcome, ReleaseOutcome::kReleased);
  }
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(1, 20).outcome, ReleaseOutcome::kReleased);
}

}  // namespace
}  // namespace distlock::core
