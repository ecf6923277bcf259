// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace distlock::core {
namespace {

// Keeps session 1 alive over `time`, beating every second.
void Beat(Table& t, Duration time) {
  for (; time > Duration::zero(); time -= seconds(1)) {
    t.Pass(std::min<Duration>(time, seconds(1)));
    t.Do(Heartbeat{1, 1});
  }
}

void AnswerRenewals(Table& t, RenewResult result) {
  while (t.Count<StoreRenew>() > 0) {
    const auto renew = t.Take<StoreRenew>();
    t.Reply(renew.op, RenewDoneBatch{std::vector<RenewResult>(renew.items.size(), result)});
  }
}

TEST(Lease, IsRenewedAtAThirdOfItsTtl) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  Beat(t, seconds(4));
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  Beat(t, milliseconds(1500));
  ASSERT_EQ(t.Count<StoreRenew>(), 1u);
  const auto renew = t.Take<StoreRenew>();
  EXPECT_TRUE(renew.items.at(0).ours);
  ASSERT_EQ(renew.items.size(), 1u);
  EXPECT_EQ(renew.items[0].ttl, kT);
  EXPECT_EQ(renew.items[0].token, granted.token);
  t.Reply(renew.op, RenewDoneBatch{{RenewResult::kRenewed}});
  EXPECT_EQ(t.Events<AtRisk>(), 0u);
}

TEST(Lease, LivesForeverWhileRenewed) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  for (int i = 0; i < 300; ++i) {
    Beat(t, seconds(1));
    AnswerRenewals(t, RenewResult::kRenewed);
  }
  EXPECT_EQ(t.Events<Lost>() + t.Events<AtRisk>(), 0u);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Lease, NotOursIsLostAtOnce) {
  for (const auto result : {RenewResult::kGone, RenewResult::kAnothers}) {
    OneSession t;
    t.Hold(1, 7, "a", 1);
    Beat(t, seconds(6));
    AnswerRenewals(t, result);
    EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kTaken);
    EXPECT_EQ(t.broker.Stats().leases, 0u);
    EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  }
}

TEST(Lease, UnansweredRenewalsPutItAtRiskThenExpireItBeforeTheKey) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  const Instant deadline = t.now + kT - kMargin;
  Beat(t, seconds(8));
  EXPECT_EQ(t.Event<AtRisk>(1, 7).valid_for > Duration::zero(), true);
  EXPECT_GE(t.Count<StoreRenew>(), 2u) << "it keeps trying";
  Beat(t, deadline - t.now - Duration(1));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kExpired);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
  // An answer that comes now brings nothing back.
  AnswerRenewals(t, RenewResult::kRenewed);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

TEST(Lease, WhereTheLockMayGoToAnotherServerItEndsEarlierByTheDifferenceOfTheirClocks) {
  BrokerConfig config;
  config.store.clock_spread = milliseconds(10);
  OneSession t(SessionKind::kHold, config);
  t.Hold(1, 1, "a", 1);
  const Instant deadline = t.now + kT - kMargin - milliseconds(10);
  t.Do(StoreDown{"gone"});
  t.Pass(deadline - t.now - Duration(1));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Event<Lost>(1, 1).reason, LostReason::kExpired);
}

TEST(Lease, AStoreAwayForLessThanTheTtlIsAtRiskThenRenewed) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(StoreDown{"connection refused"});
  Beat(t, seconds(8));
  EXPECT_EQ(t.Event<AtRisk>(1, 7).cause, "connection refused");
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  t.StoreComesUp();
  AnswerRenewals(t, RenewResult::kRenewed);
  t.Event<Renewed>(1, 7);
  EXPECT_EQ(t.Events<Lost>(), 0u);
}

TEST(Lease, ABrokerThatSleptRenewsNothingThatLapsed) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 1, "a", 1);
  t.now += 2 * kT;
  t.Do(Tick{});
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  EXPECT_EQ(t.Event<Lost>(1, 1).reason, LostReason::kExpired);
}

TEST(Lease, DeadlineCountsFromSendingNotFromTheReply) {
  OneSession t(SessionKind::kHold);
  t.Do(t.Want(1, 1, "a", 1));
  const Instant sent = t.now;
  t.now += milliseconds(400);
  t.GrantNext(42);
  t.Do(StoreDown{"gone"});
  t.Pass(sent + kT - kMargin - t.now - Duration(1));
  EXPECT_EQ(t.Events<Lost>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Events<Lost>(), 1u);
}

TEST(Lease, ReleaseStopsRenewalsAtOnceAndTellsTheOutcome) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.block, Duration::zero());
  t.Reply(release.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(1, 8).outcome, ReleaseOutcome::kReleased);
  Beat(t, seconds(20));
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
  t.Do(Release{.session = 1, .request = 9, .acquire = 7, .name = {}});
  EXPECT_EQ(t.Event<Released>(1, 9).outcome, ReleaseOutcome::kAlreadyGone);
}

TEST(Lease, ReleaseByItsNameFromElsewhereTellsTheHolder) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 1, "a", 1);
  t.Do(Release{.session = 9, .request = 1, .name = Name("a"), .owner = Owner(1)});
  EXPECT_EQ(t.Event<Released>(1, 1).outcome, ReleaseOutcome::kReleased);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(9, 1).outcome, ReleaseOutcome::kReleased);
}

TEST(Lease, AReleaseWhoseReplyWasLostIsRepeatedAndStillCountsAsReleased) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, StoreUnknown{"reset"});
  t.Pass(seconds(1));
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{});
  EXPECT_EQ(t.Event<Released>(1, 8).outcome, ReleaseOutcome::kReleased);
}

TEST(Lease, ReleaseDuringAnOutageIsSaidToBeUnconfirmedAndGoesOn) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 1, "a", 1);
  t.Do(StoreDown{"gone"});
  t.Do(Release{.session = 1, .request = 8, .acquire = 1, .name = {}});
  t.Pass(seconds(6));
  EXPECT_EQ(t.Event<Refused>(1, 8).reason, RefusalReason::kStoreUnavailable);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Lease, MaxHoldEndsItAndLimitsEveryPromise) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.max_hold = seconds(2);
  t.Do(want);
  t.GrantNext(42);
  EXPECT_EQ(t.Event<Granted>(1, 7).valid_for, Told(seconds(2)));
  t.Pass(seconds(1));
  t.Do(Heartbeat{1, 1});
  const auto ack = t.Event<HeartbeatAck>(1, 0);
  ASSERT_EQ(ack.limits.size(), 1u);
  EXPECT_EQ(ack.limits[0].valid_for, Told(seconds(1)));
  t.Pass(seconds(1));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kMaxHold);
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(Lease, ALockDelayBlocksAfterALossAndNotAfterARelease) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 1, "a", 1);
  want.lock_delay = seconds(10);
  want.max_hold = seconds(1);
  t.Do(want);
  const auto ask = t.Take<StoreAcquire>();
  EXPECT_EQ(ask.lock_delay, seconds(10));
  t.Reply(ask.op, AcquireGranted{42, t.StoreNow()});
  t.Pass(seconds(1));
  EXPECT_EQ(t.Take<StoreRelease>().block, seconds(10));

  t.Open(2);
  auto other = t.Want(2, 1, "b", 2);
  other.lock_delay = seconds(10);
  t.Do(other);
  t.GrantNext(43);
  t.Do(Goodbye{2});
  EXPECT_EQ(t.Take<StoreRelease>().block, Duration::zero());
}

TEST(Lease, ALockDelayBlocksAfterALossThatTheClientSawFirst) {
  OneSession t;
  auto want = t.Want(1, 1, "a", 1);
  want.lock_delay = seconds(10);
  want.max_hold = seconds(5);
  t.Do(want);
  t.GrantNext(42);
  t.Do(Release{.session = 1, .request = 2, .acquire = 1, .name = {}, .lapsed = true});
  EXPECT_EQ(t.Take<StoreRelease>().block, seconds(10));
  EXPECT_TRUE(std::any_of(t.facts.begin(), t.facts.end(), [](const Fact& fact) {
    return fact.kind == FactKind::kLost && fact.lost == LostReason::kMaxHold;
  }));
}

TEST(Lease, DetachedRenewal) {
  Table t;
  t.StoreComesUp();
  t.Do(Renew{
      .session = 5, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT, .hold_until = {}});
  t.now += milliseconds(10);
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kRenewed}});
  EXPECT_EQ(t.Event<RenewDone>(5, 1).valid_for, Told(kT - kMargin));
  t.Do(Renew{
      .session = 6, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT, .hold_until = {}});
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kGone}});
  EXPECT_EQ(t.Event<Refused>(6, 1).reason, RefusalReason::kNotHolder);
}

// No estimate of this broker about the store's clock may cut what another broker has promised.
TEST(Lease, DetachedMaxHoldEndsByTheStoresClockAlone) {
  Table t;
  t.StoreComesUp();
  StoreTime end = t.StoreNow();
  end.us += 1'000'000;
  t.Do(Renew{
      .session = 5, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT, .hold_until = end});
  const auto renew = t.Take<StoreRenew>();
  EXPECT_EQ(renew.items[0].ttl, kT);
  EXPECT_EQ(renew.items[0].hold_until, end);
  EXPECT_FALSE(renew.items[0].ours) << "the store cuts it at max_hold";
  t.Reply(renew.op, RenewDoneBatch{{RenewResult::kRenewed}, {seconds(1)}});
  const auto done = t.Event<RenewDone>(5, 1);
  EXPECT_LE(done.ttl, seconds(1));
  EXPECT_LT(done.valid_for, done.ttl);
  EXPECT_GT(done.valid_for, milliseconds(900));

  t.Pass(seconds(1));
  t.Do(Renew{
      .session = 6, .request = 1, .name = Name("a"), .owner = Owner(1), .token = 42, .ttl = kT, .hold_until = end});
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kGone}, {-milliseconds(1)}});
  const auto refused = t.Event<Refused>(6, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kNotHolder);
  EXPECT_EQ(refused.cause, "it was held for max_hold");
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "its ttl ends it, and then its lock_delay";
}

// Acquiring again keeps the key for another ttl.
TEST(Lease, ADetachedGrantToldLateIsPromisedOnlyUpToItsMaxHold) {
  Table t;
  t.StoreComesUp();
  auto want = t.WantDetached(3, 1, "a", 1);
  want.ttl = want.max_hold = seconds(2);
  t.Do(want);
  StoreTime since = t.StoreNow();
  since.us -= 1'500'000;
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{7, since, milliseconds(1'500)});
  EXPECT_LE(t.Event<Granted>(3, 1).valid_for, milliseconds(500));
}

// The repeat of a request for a detached lease that may be held for 2 s.
void RepeatBrief(Table& t) {
  t.StoreComesUp();
  auto want = t.WantDetached(3, 1, "a", 1);
  want.owner[0] = kRepeatableMark;
  want.ttl = want.max_hold = seconds(2);
  t.Do(want);
}

TEST(Lease, ADetachedGrantFoundAfterItsMaxHoldIsGivenBackAndAskedForAnew) {
  Table t;
  RepeatBrief(t);
  StoreTime since = t.StoreNow();
  since.us -= 2'500'000;
  t.Reply(t.Take<StoreAcquire>().op, AcquireGranted{7, since, milliseconds(2'500), milliseconds(2'500)});
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.token, 7u);
  t.Reply(release.op, GiveBackDone{.was_holder = true});
  t.GrantNext(8);
  EXPECT_EQ(t.Event<Granted>(3, 1).token, 8u);
}

// One of several servers counts its max_hold from a later moment.
TEST(Lease, ADetachedGrantFoundAfterItsMaxHoldIsKeptForAsLongAsItMayHaveBeenPromised) {
  Table t;
  RepeatBrief(t);
  AcquireGranted over{7, t.StoreNow(), milliseconds(2'500), milliseconds(1'900)};
  t.Reply(t.Take<StoreAcquire>().op, over);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(milliseconds(200));
  over.held_at_least = milliseconds(2'100);
  t.Reply(t.Take<StoreAcquire>().op, over);
  EXPECT_EQ(t.Take<StoreRelease>().token, 7u);
}

TEST(Lease, ARenewalDueWhenTheStreamEndsIsNotSent) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 1, "a", 1);
  t.Pass(seconds(4));
  t.now += seconds(2);
  t.Do(StreamEnded{1});
  EXPECT_EQ(t.Count<StoreRenew>(), 0u);
}

TEST(Lease, LateRepliesToRenewalsStartNoStormOfThem) {
  OneSession t(SessionKind::kHold);
  t.Hold(1, 1, "a", 1);
  t.Pass(milliseconds(10'600));
  EXPECT_EQ(t.Count<StoreRenew>(), 3u);
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kRenewed}});
  t.Pass(milliseconds(1500));
  EXPECT_EQ(t.Count<StoreRenew>(), 2u) << "two are still under way";
}

TEST(Lease, ALostKeyIsGivenBackWhenAnAcquireCouldStillBringItBack) {
  OneSession t(SessionKind::kHold);
  auto want = t.Want(1, 1, "a", 1);
  want.ttl = seconds(1);
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, StoreUnknown{"reset"});
  t.Pass(milliseconds(50));
  t.GrantNext(42);
  t.Pass(milliseconds(360));
  AnswerRenewals(t, RenewResult::kGone);
  EXPECT_EQ(t.Event<Lost>(1, 1).reason, LostReason::kTaken);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{});
  EXPECT_EQ(t.broker.Stats().pending_releases, 1u);
  t.Pass(milliseconds(200));
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Lease, AKeyThatAStragglerBroughtBackUnderANewTokenIsLostAndGivenBack) {
  OneSession t(SessionKind::kHold);
  t.Do(t.Want(1, 1, "a", 1));
  t.Reply(t.Take<StoreAcquire>().op, StoreUnknown{"reset"});
  t.Pass(milliseconds(50));
  t.GrantNext(42);
  t.Pass(milliseconds(5'100));
  AnswerRenewals(t, RenewResult::kAnothers);
  EXPECT_EQ(t.Event<Lost>(1, 1).reason, LostReason::kTaken);
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(1)) << "a release would name the token of before";
}

TEST(Lease, DetachedRenewalsWhoseMaxHoldPassedWhileTheStoreWasAwayAreRefused) {
  Table t;
  t.StoreComesUp();
  StoreTime end = t.StoreNow();
  end.us += 1'000'000;
  t.Do(StoreDown{"gone"});
  for (SessionId s = 1; s <= 20; ++s) {
    t.Do(Renew{.session = s,
               .request = 1,
               .name = Name("a"),
               .owner = Owner(static_cast<int>(s)),
               .token = s,
               .ttl = kT,
               .hold_until = end});
  }
  t.Pass(seconds(2));
  t.StoreComesUp();
  for (SessionId s = 1; s <= 20; ++s) {
    t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kGone}, {-seconds(1)}});
  }
  for (SessionId s = 1; s <= 20; ++s) EXPECT_EQ(t.Event<Refused>(s, 1).reason, RefusalReason::kNotHolder);
}

}  // namespace
}  // namespace distlock::core
