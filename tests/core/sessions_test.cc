// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace distlock::core {
namespace {

TEST(Session, AHeartbeatPromisesAValidityForEveryLease) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Pass(seconds(1));
  t.Do(Heartbeat{1, 3});
  const auto ack = t.Event<HeartbeatAck>(1, 0);
  EXPECT_EQ(ack.seq, 3u);
  EXPECT_EQ(ack.valid_for, Told(kV));
  EXPECT_TRUE(ack.limits.empty());
}

TEST(Session, AGrantEchoesTheLastHeartbeatAndPromisesNoMoreThanIt) {
  OneSession t;
  t.Do(Heartbeat{1, 5});
  t.Do(t.Want(1, 7, "a", 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Pass(seconds(2));
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  const auto granted = t.Event<Granted>(1, 7);
  EXPECT_EQ(granted.echo_seq, 5u);
  EXPECT_EQ(granted.valid_for, Told(kV)) << "counted from the heartbeat, two seconds ago";
}

TEST(Session, NoHeartbeatForAValidityLapsesIt) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Pass(kV - Duration(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kExpired);
  EXPECT_EQ(t.Event<EndStream>(1, 0).why, StreamEnd::kLapsed);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u) << "belief has ended, so the next one may have it";
  EXPECT_EQ(t.broker.Stats().sessions, 0u);
}

TEST(Session, ABrokenStreamIsFreedOnlyWhenTheLastPromiseHasPassed) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Pass(seconds(1));
  t.Do(Heartbeat{1, 1});
  t.Pass(milliseconds(500));
  t.Do(StreamEnded{1});
  t.Pass(milliseconds(2500) - Duration(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
}

TEST(Session, OnDisconnectReleaseFreesAtOnceAndExpireNever) {
  for (const bool release : {true, false}) {
    OneSession t;
    auto want = t.Want(1, 7, "a", 1);
    want.on_disconnect = release ? OnDisconnect::kRelease : OnDisconnect::kExpire;
    t.Do(want);
    t.GrantNext(42);
    t.Do(StreamEnded{1});
    EXPECT_EQ(t.Count<StoreRelease>(), release ? 1u : 0u);
    t.Pass(2 * kT);
    EXPECT_EQ(t.Count<StoreRenew>(), 0u);
    EXPECT_EQ(t.broker.Stats().leases, 0u);
  }
}

TEST(Session, WhatExpireLeavesToItsTtlNoLateAnswerGivesBack) {
  Table t;
  t.StoreComesUp();
  t.Open(2, SessionKind::kHold);
  t.Hold(2, 9, "other", 9);
  t.Open(1);
  auto want = t.Want(1, 7, "a", 1);
  want.on_disconnect = OnDisconnect::kExpire;
  t.Do(want);
  const auto first = t.Take<StoreAcquire>();
  t.Pass(milliseconds(2500));
  const auto second = t.Take<StoreAcquire>();
  t.Reply(first.op, AcquireGranted{42, t.StoreNow()});
  t.Do(StreamEnded{1});
  t.Reply(second.op, AcquireGranted{42, t.StoreNow()});
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
}

// The release waits to be repeated when the notice of the very grant comes: to withdraw now would free it without its
// block.
TEST(Session, ALateNoticeDoesNotCutALockDelayShort) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.on_disconnect = OnDisconnect::kRelease;
  want.lock_delay = seconds(2);
  t.Do(want);
  t.GrantNext(42);
  t.Do(StreamEnded{1});
  t.Reply(t.Take<StoreRelease>().op, StoreFailed{FailureKind::kUnavailable, "BUSY"});
  t.Do(GrantNotice{Name("a"), Owner(1), 42, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.block, seconds(2));
  t.Reply(release.op, GiveBackDone{.was_holder = true});
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Session, GoodbyeFreesEverythingAtOnceAndEndsTheStream) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Hold(1, 8, "b", 2);
  t.Do(t.Want(1, 9, "c", 3));
  t.Do(Goodbye{1});
  EXPECT_EQ(t.Count<StoreRelease>(), 2u);
  EXPECT_EQ(t.Count<StoreWithdraw>(), 1u);
  EXPECT_EQ(t.Event<EndStream>(1, 0).why, StreamEnd::kGoodbye);
  t.Do(StreamEnded{1});
  EXPECT_EQ(t.broker.Stats().leases + t.broker.Stats().waiters + t.broker.Stats().sessions, 0u);
}

TEST(Session, AHoldStreamIsPromisedAgainEveryThirdOfTheValidity) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 1, "a", 1);
  t.Pass(seconds(3));
  EXPECT_EQ(t.Events<Renewed>(), 3u);
  const auto renewed = t.Event<Renewed>(1, 1);
  EXPECT_EQ(renewed.valid_for, Told(kV - kV / 10)) << "a tenth is for the network";
  EXPECT_GE(renewed.since_granted, seconds(1));
  EXPECT_LT(renewed.since_granted, seconds(1) + milliseconds(2)) << "a little fast, as the client's clock may be";
  t.Do(StreamEnded{1});
  t.Pass(kV - Duration(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Session, AHoldStreamWithAShortTtlIsPromisedAgainBeforeThat) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 1, "a", 1);
  want.ttl = seconds(1);
  t.Do(want);
  t.GrantNext(42);
  t.Pass(milliseconds(334));
  EXPECT_EQ(t.Events<Renewed>(), 1u) << "a third of the validity would be too late";
}

TEST(Session, AShortTtlLimitsThePromise) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.ttl = seconds(1);
  t.Do(want);
  t.GrantNext(42);
  EXPECT_EQ(t.Event<Granted>(1, 7).valid_for, Told(milliseconds(997)));
  t.Do(Heartbeat{1, 1});
  const auto ack = t.Event<HeartbeatAck>(1, 0);
  ASSERT_EQ(ack.limits.size(), 1u);
  EXPECT_EQ(ack.limits[0].acquire, 7u);
  EXPECT_EQ(ack.limits[0].valid_for, Told(milliseconds(997)));
}

TEST(Drain, RefusesNewOnesTellsStreamsAndWaitsForHolders) {
  OneSession t;
  t.Open(2);
  t.Hold(1, 7, "a", 1);
  t.Do(t.Want(2, 1, "b", 2));
  t.Do(Drain{seconds(10)});
  EXPECT_EQ(t.Event<Draining>(1, 0).time_left, seconds(10));
  EXPECT_EQ(t.Event<Refused>(2, 1).reason, RefusalReason::kDraining);
  t.Do(t.Want(1, 9, "c", 3));
  EXPECT_EQ(t.Event<Refused>(1, 9).reason, RefusalReason::kDraining);
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_waiter = true});
  EXPECT_EQ(t.drains, 0);
  t.Do(Release{.session = 1, .request = 10, .acquire = 7, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.drains, 1);
  EXPECT_EQ(t.Events<EndStream>(), 0u) << "the session's other locks may live on another shard";
}

TEST(Drain, WhatIsLeftAtItsEndIsLostAndFreedWhenBeliefHasEnded) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(Drain{seconds(1)});
  t.Pass(milliseconds(500));
  t.Do(Heartbeat{1, 1});
  t.Pass(milliseconds(500));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kDrained);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(milliseconds(2500));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.drains, 1);
}

// The next process adopts it, and nobody knows when that comes.
TEST(Drain, LeavesToItsTtlWhatItsClientResumes) {
  for (const bool stream_breaks : {true, false}) {
    OneSession t;
    auto want = t.Want(1, 7, "a", 1);
    want.resume = true;
    t.Do(want);
    t.GrantNext(42);
    t.Do(Drain{seconds(1)});
    if (!stream_breaks) t.Pass(seconds(1));
    t.Do(StreamEnded{1});
    EXPECT_EQ(t.drains, 1) << "nothing is left to be done";
    t.Pass(seconds(60));
    EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  }
}

// Otherwise its client's belief could end before the next process serves.
TEST(Drain, RenewsWhatItsClientResumesUntilAllElseIsFreed) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.resume = true;
  t.Do(want);
  t.GrantNext(42);
  t.Hold(1, 8, "b", 2);
  t.Do(Drain{seconds(1)});
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Lost>(1, 8).reason, LostReason::kDrained);
  EXPECT_EQ(t.Events<Lost>(), 0u);
  EXPECT_EQ(t.Events<EndStream>(), 0u);
  t.Pass(seconds(1));
  t.Do(Heartbeat{1, 1});
  EXPECT_EQ(t.Event<HeartbeatAck>(1, 0).valid_for, Told(kV));
  EXPECT_EQ(t.drains, 0);
  t.Pass(seconds(1));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.drains, 1);
}

TEST(Drain, GivesBackWhatIsReleasedThoughItsClientWouldResumeIt) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.resume = true;
  t.Do(want);
  t.GrantNext(42);
  t.Do(Drain{seconds(1)});
  t.Do(Goodbye{1});
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Session, ABrokerThatGoesOnFreesWhatNobodyResumed) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.resume = true;
  t.Do(want);
  t.GrantNext(42);
  t.Do(StreamEnded{1});
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Drain, IsNotHeldUpByAStoreThatDoesNotAnswer) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(StoreDown{"gone"});
  t.Do(Drain{seconds(1)});
  t.Pass(seconds(1) + kV + BrokerConfig{}.store_timeout - Duration(1));
  EXPECT_EQ(t.drains, 0);
  t.Pass(Duration(1));
  EXPECT_EQ(t.drains, 1);
  t.Pass(seconds(200));
  EXPECT_EQ(t.drains, 1);
}

TEST(Session, NothingIsLeftAfterItsEnd) {
  Table t;
  t.StoreComesUp();
  for (SessionId s = 1; s <= 50; ++s) {
    t.Open(s);
    t.Hold(s, 1, "a" + std::to_string(s), static_cast<int>(s));
    t.Do(t.Want(s, 2, "b", static_cast<int>(100 + s)));
    t.QueueNext(seconds(9));
    t.Do(StreamEnded{s});
  }
  t.Pass(kV);
  while (t.Count<StoreRelease>() > 0) t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  while (t.Count<StoreWithdraw>() > 0) t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_waiter = true});
  const BrokerStats stats = t.broker.Stats();
  EXPECT_EQ(
      stats.sessions + stats.leases + stats.waiters + stats.pending_releases + stats.queues + stats.ops + stats.timers,
      0u);
}

TEST(Drain, WaitsOutBeliefAlsoWhereABrokenStreamWouldNot) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.on_disconnect = OnDisconnect::kRelease;
  t.Do(want);
  t.GrantNext(42);
  t.Do(Drain{seconds(1)});
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kDrained);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "the client has not heard of it yet";
  t.Pass(seconds(2));
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Drain, ASecondShorterOneDoesNotCompleteItAgain) {
  OneSession t;
  t.Do(Drain{seconds(10)});
  ASSERT_EQ(t.drains, 1) << "nothing was held";
  t.Do(Drain{seconds(1)});
  t.Pass(seconds(60));
  EXPECT_EQ(t.drains, 1);
}

TEST(Session, AnIdIsInUseAlsoWhileItWaits) {
  OneSession t;
  t.Do(t.Want(1, 7, "a", 1));
  t.Do(t.Want(1, 7, "b", 2));
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kInvalidArgument);
  t.Do(AcquireAll{{t.Want(1, 8, "c", 3), t.Want(1, 9, "d", 4)}});
  t.Do(t.Want(1, 9, "e", 5));
  EXPECT_EQ(t.Event<Refused>(1, 9).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u);
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  EXPECT_EQ(t.Event<Granted>(1, 9).name, Name("d")) << "the first one is as it was";
}

TEST(Session, AHoldStreamHasNoHeartbeat) {
  OneSession t(SessionKind::kHold);
  t.Do(Heartbeat{1, 1});
  EXPECT_TRUE(t.notes.empty());
  t.Pass(2 * kV);
  EXPECT_EQ(t.broker.Stats().sessions, 1u) << "and does not lapse without one";
}

TEST(Session, AGoodbyeThatCrossesItsEndIsNothing) {
  OneSession t;
  t.Pass(kV);
  EXPECT_EQ(t.Event<EndStream>(1, 0).why, StreamEnd::kLapsed);
  t.Do(Goodbye{1});
  EXPECT_TRUE(t.commands.empty() && t.notes.empty());
}

TEST(Drain, WaitsForConversionsAndForcedReleases) {
  for (const bool conversion_last : {true, false}) {
    Table t;
    t.StoreComesUp();
    t.Do(Downgrade{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 5, .info = {}});
    t.Do(ForceRelease{
        .session = 9, .request = 2, .name = Name("b"), .owner = Owner(2), .token = 6, .broker_id = {}, .reason = {}});
    const StoreReply downgraded{t.Take<StoreDowngrade>().op,
                                DowngradeDone{.result = DowngradeDone::Result::kDowngraded, .next = {}}};
    const StoreReply forced{t.Take<StoreForce>().op, ForceDone{.result = ForceDone::Result::kReleased, .next = {}}};
    t.Do(Drain{seconds(10)});
    EXPECT_EQ(t.drains, 0);
    t.Do(conversion_last ? forced : downgraded);
    EXPECT_EQ(t.drains, 0);
    t.Do(conversion_last ? downgraded : forced);
    EXPECT_EQ(t.drains, 1);
  }
}

}  // namespace
}  // namespace distlock::core
