// SPDX-License-Identifier: Apache-2.0
//
// Locks that are taken from their holders: told here or by their broker, freed when nobody can believe in them any
// more.
#include "table.h"

namespace distlock::core {
namespace {

using ForceResult = ForceDone::Result;

ForceRelease Forced(const Granted& granted, SessionId session = 9) {
  return {.session = session,
          .request = 1,
          .name = granted.name,
          .owner = granted.owner,
          .token = granted.token,
          .broker_id = "0123456789abcdef",
          .reason = "why"};
}

ForceRelease Others() {
  return {.session = 9,
          .request = 1,
          .name = Name("a"),
          .owner = Owner(1),
          .token = 42,
          .broker_id = "0123456789abcdef",
          .reason = "why"};
}

Granted HoldBy(Table& t, OnDisconnect how, Duration lock_delay = {}) {
  auto want = t.Want(1, 7, "a", 1);
  want.on_disconnect = how;
  want.lock_delay = lock_delay;
  t.Do(want);
  t.GrantNext(42);
  return t.Event<Granted>(1, 7);
}

TEST(Force, ACallInFlightIsNotSentAgainWhenTheStoreIsUp) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  EXPECT_EQ(t.Count<StoreForce>(), 1u);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreForce>(), 1u);
}

TEST(Force, AnOwnLeaseIsToldAndFreedWhenItsPromiseHasPassed) {
  for (const auto how : {OnDisconnect::kSafe, OnDisconnect::kRelease, OnDisconnect::kExpire}) {
    OneSession t;
    const auto granted = HoldBy(t, how, seconds(2));
    t.Pass(seconds(1));
    t.Do(Heartbeat{1, 1});
    t.Do(Forced(granted));
    const auto lost = t.Event<Lost>(1, 7);
    EXPECT_EQ(lost.reason, LostReason::kForced);
    EXPECT_EQ(lost.cause, "why");
    t.Pass(kV - milliseconds(1));
    EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreRenew>() + t.Count<StoreForce>(), 0u);
    t.Pass(milliseconds(1));
    const auto release = t.Take<StoreRelease>();
    EXPECT_EQ(release.block, Duration::zero());
    t.Reply(release.op, GiveBackDone{.was_holder = true, .next = {}});
    EXPECT_EQ(t.Events<Released>(), 0u) << "the store says when it is gone";
    t.Pass(milliseconds(200));
    t.Reply(t.Take<StoreForce>().op, ForceDone{.next = {}});
    EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kReleased);
    EXPECT_EQ(t.broker.Stats().leases, 0u);
    ASSERT_FALSE(t.facts.empty());
    size_t forced = 0;
    for (const Fact& fact : t.facts) forced += fact.kind == FactKind::kLost && fact.lost == LostReason::kForced;
    EXPECT_EQ(forced, 1u);
  }
}

TEST(Force, ALeaseWhoseStreamHasBrokenLosesItsDelayOnly) {
  OneSession t;
  const auto granted = HoldBy(t, OnDisconnect::kSafe, seconds(2));
  t.Do(StreamEnded{1});
  t.Do(Forced(granted));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Pass(kV - milliseconds(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Take<StoreRelease>().block, Duration::zero());
}

TEST(Force, WhatWasLeftToItsTtlIsNotFreedBeforeItsPromiseHasPassed) {
  OneSession t;
  const auto granted = HoldBy(t, OnDisconnect::kExpire);
  t.Do(StreamEnded{1});
  t.Do(Forced(granted));
  t.Do(ForceNotice{granted.name, granted.owner, granted.token, "why"});
  t.Pass(kV - milliseconds(1));
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u);
  t.Pass(seconds(1));
  EXPECT_EQ(t.Count<StoreForce>(), 1u);
}

TEST(Force, OthersAreLookedForUntilTheyAreGone) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  for (int i = 0; i < 3; ++i) {
    const auto ask = t.Take<StoreForce>();
    EXPECT_EQ(ask.broker_id, "0123456789abcdef");
    EXPECT_EQ(ask.reason, "why");
    EXPECT_EQ(ask.token, 42u);
    t.Reply(ask.op, ForceDone{.result = ForceResult::kTold, .next = {}});
    EXPECT_EQ(t.Events<Released>(), 0u);
    t.Pass(milliseconds(400));
  }
  t.Reply(t.Take<StoreForce>().op, ForceDone{.result = ForceResult::kGone, .next = {}});
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kReleased);
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

TEST(Force, WhoHasLeftByItselfIsNotCounted) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  t.Reply(t.Take<StoreForce>().op, ForceDone{.result = ForceResult::kGone, .next = {}});
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kAlreadyGone);
}

TEST(Force, AnUnknownOutcomeIsNoSuccess) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  t.Reply(t.Take<StoreForce>().op, StoreUnknown{"reset"});
  t.Do(StoreDown{"gone"});
  t.Pass(seconds(20));
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kStoreUnavailable);
  EXPECT_EQ(t.Events<Released>(), 0u);
}

TEST(Force, ABrokerThatNeverGivesItBackIsNoSuccess) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  for (int i = 0; i < 200 && t.Events<Refused>() == 0; ++i) {
    while (t.Count<StoreForce>() > 0)
      t.Reply(t.Take<StoreForce>().op, ForceDone{.result = ForceResult::kTold, .next = {}});
    t.Pass(milliseconds(100));
  }
  EXPECT_EQ(t.Event<Refused>(9, 1).reason, RefusalReason::kStoreUnavailable);
}

TEST(Force, WhatIsReleasedAtOnceGoesToTheNextHere) {
  Table t;
  t.StoreComesUp();
  t.Open(2);
  t.Do(t.Want(2, 3, "a", 2));
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{.holders = {}, .queue_length = 1, .left = kT});
  t.Do(Others());
  const HolderView next{.owner = Owner(2), .token = 43, .since = t.StoreNow(), .ttl = kT, .info = {}};
  t.Reply(t.Take<StoreForce>().op, ForceDone{.result = ForceResult::kReleased, .next = {next}});
  EXPECT_EQ(t.Event<Granted>(2, 3).token, 43u);
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kReleased);
}

TEST(Force, AGrantThatIsOnItsWayIsWaitedFor) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  const auto acquire = t.Take<StoreAcquire>();
  t.Do(Others());
  t.Do(ForceNotice{Name("a"), Owner(1), 42, "why"});
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u);
  t.Reply(acquire.op, AcquireGranted{42, t.StoreNow()});
  t.Event<Granted>(1, 7);
  t.Pass(milliseconds(100));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kForced);
}

TEST(Force, ANoticeEndsALeaseHere) {
  OneSession t(SessionKind::kHold);
  const auto granted = t.Hold(1, 1, "a", 1);
  t.Do(ForceNotice{granted.name, granted.owner, granted.token + 1, "why"});
  EXPECT_EQ(t.Events<Lost>(), 0u) << "another grant";
  t.Do(ForceNotice{granted.name, granted.owner, granted.token, "why"});
  EXPECT_EQ(t.Event<Lost>(1, 1).reason, LostReason::kForced);
  t.Do(ForceNotice{granted.name, granted.owner, granted.token, "why"});
  EXPECT_EQ(t.Events<Lost>(), 0u) << "told twice";
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Force, ANoticeOfADetachedLeaseGivesItBack) {
  Table t;
  t.StoreComesUp();
  t.Do(ForceNotice{Name("a"), Owner(1), 42, "why"});
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.token, 42u);
  EXPECT_EQ(release.block, Duration::zero());
  t.Reply(release.op, GiveBackDone{.was_holder = true, .next = {}});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Force, TheSameRequestTwiceIsOne) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  t.Do(Others());
  ASSERT_EQ(t.Count<StoreForce>(), 1u);
  t.Reply(t.Take<StoreForce>().op, ForceDone{.result = ForceResult::kReleased, .next = {}});
  EXPECT_EQ(t.Events<Released>(), 1u);
}

TEST(Force, AForeignKeyIsNoHolder) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  t.Reply(t.Take<StoreForce>().op, StoreFailed{FailureKind::kForeignKey, "a list"});
  const auto refused = t.Event<Refused>(9, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kForeignKey);
  EXPECT_EQ(refused.cause, "a list");
  EXPECT_EQ(t.broker.Stats().timers, 0u);
}

TEST(Force, NobodyIsAnsweredWhoseStreamIsOver) {
  Table t;
  t.StoreComesUp();
  t.Do(Others());
  auto another = Others();
  another.session = 10;
  t.Do(another);
  const auto ask = t.Take<StoreForce>();
  t.Do(StreamEnded{9});
  t.Reply(ask.op, ForceDone{.result = ForceResult::kTold, .next = {}});
  t.Reply(t.Take<StoreForce>().op, ForceDone{.result = ForceResult::kReleased, .next = {}});
  EXPECT_EQ(t.Event<Released>(10, 1).outcome, ReleaseOutcome::kReleased) << "who else asked is";
  t.Pass(seconds(20));
  EXPECT_TRUE(t.commands.empty() && t.notes.empty());
}

// The stream from which it was adopted may be believed until its ttl has passed, though the one that has it broke.
TEST(Force, OfAnAdoptedLeaseWaitsForTheBeliefOfTheFormerStream) {
  OneSession t;
  t.Do(Adopt{
      .session = 1, .request = 7, .name = Name("a"), .from = Owner(5), .token = 42, .owner = Owner(6), .ttl = kT});
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
  const auto granted = t.Event<Granted>(1, 7);
  t.Do(StreamEnded{1});
  t.Pass(kT - seconds(2));
  t.Do(Forced(granted));
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u);
  t.Pass(seconds(3));
  EXPECT_GE(t.Count<StoreForce>(), 1u);
}

// The store has the new owner, and the client believes by its former promise until it hears of that.
TEST(Force, AnAdoptionThatIsOnItsWayIsWaitedFor) {
  OneSession t;
  t.Do(Adopt{
      .session = 1, .request = 7, .name = Name("a"), .from = Owner(5), .token = 42, .owner = Owner(6), .ttl = kT});
  const auto adopt = t.Take<StoreAdopt>();
  const ForceNotice notice{Name("a"), Owner(6), 42, "why"};
  t.Do(notice);
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u);
  t.Reply(adopt.op, AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
  t.Event<Granted>(1, 7);
  t.Do(notice);
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kForced);
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u) << "its client lives";
}

TEST(Force, AnAdoptionWhoseStreamBrokeIsWaitedForAsLongAsTheFormerPromiseMayBeBelieved) {
  OneSession t;
  t.Do(Adopt{
      .session = 1, .request = 7, .name = Name("a"), .from = Owner(5), .token = 42, .owner = Owner(6), .ttl = kT});
  t.Do(StreamEnded{1});
  t.Pass(kT - seconds(2));
  const ForceNotice notice{Name("a"), Owner(6), 42, "why"};
  t.Do(notice);
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u);
  t.Pass(seconds(3));
  t.Do(notice);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Force, AnAdoptionThatWasGivenUpIsWaitedForToo) {
  OneSession t;
  t.Do(Adopt{
      .session = 1, .request = 7, .name = Name("a"), .from = Owner(5), .token = 42, .owner = Owner(6), .ttl = kT});
  for (uint64_t seq = 1; seq <= 6; ++seq) {
    t.Do(Heartbeat{.session = 1, .seq = seq});
    t.Pass(seconds(1));
  }
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kStoreUnavailable);
  t.Do(ForceNotice{Name("a"), Owner(6), 42, "why"});
  EXPECT_EQ(t.Count<StoreForce>() + t.Count<StoreRelease>(), 0u);
}

}  // namespace
}  // namespace distlock::core
