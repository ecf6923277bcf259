// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "history/violations.h"

namespace distlock::sim {
namespace {

// ---- I1 among clients ----

TEST(Exclusion, OneAfterAnotherIsRight) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann"), 5);
  b.Holds(50, 90, b.Asks(1, "bob"), 6);
  EXPECT_VIOLATED(b, "");
}

TEST(Exclusion, TwoAtOnce) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann"), 5);
  b.Holds(49, 90, b.Asks(1, "bob"), 6);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Exclusion, TwoLocksAreTwoThings) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann"), 5);
  b.Holds(10, 50, b.Asks(0, "bob", {.lock = "other"}), 5);
  EXPECT_VIOLATED(b, "");
}

TEST(Exclusion, ALongBeliefIsSeenBehindAShortOne) {
  HistoryBuilder b;
  b.Granted(10, b.Asks(0, "ann"), 5, 1000);
  const int64_t other = b.Asks(0, "bob", {.lock = "other"});
  b.Holds(20, 30, other, 1);
  b.Granted(900, b.Asks(0, "eve"), 6, 2000);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Exclusion, ADeadlineThatPassesEndsBelief) {
  HistoryBuilder b;
  const int64_t lease = b.Asks(0, "ann");
  b.Granted(10, lease, 5, 1000);
  b.Granted(1000, b.Asks(1, "bob"), 6, 2000);
  EXPECT_VIOLATED(b, "");
}

TEST(Exclusion, ALaterPromiseCounts) {
  HistoryBuilder b;
  const int64_t lease = b.Asks(0, "ann");
  b.Granted(10, lease, 5, 1000);
  b.Believes(500, lease, 1500);
  b.Granted(1000, b.Asks(1, "bob"), 6, 2000);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Exclusion, APromiseCanShrink) {
  HistoryBuilder b;
  const int64_t lease = b.Asks(0, "ann");
  b.Granted(10, lease, 5, 1500);
  b.Believes(500, lease, 900);
  b.Granted(1000, b.Asks(1, "bob"), 6, 2000);
  EXPECT_VIOLATED(b, "");
}

TEST(Exclusion, BeliefNeverComesBack) {
  HistoryBuilder b;
  const int64_t lease = b.Asks(0, "ann");
  b.Granted(10, lease, 5, 1000);
  b.Ended(100, lease);
  b.Believes(101, lease, 1000);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Exclusion, BeliefMayComeBackWithAnOlderStore) {
  for (const bool forgot : {false, true}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.detached = true});
    b.Granted(10, ann, 5, 100);
    b.Ended(20, ann);
    if (forgot) b.Forgot(25);
    b.AsksAgain(26, ann);
    b.Granted(30, ann, 5, 130);
    EXPECT_VIOLATED(b, forgot ? "" : "I1");
  }
}

// ---- Excused overlaps ----

HistoryBuilder Overlap(const Terms& ann_terms, bool calm, bool with_fault) {
  HistoryBuilder b;
  if (calm) b.Calm();
  const int64_t ann = b.Asks(0, "ann", ann_terms);
  b.Granted(10, ann, 5, 1000);
  if (with_fault) b.Fault(50, FaultKind::kLinkReset);
  const int64_t bob = b.Asks(1, "bob");
  b.Holds(500, 900, bob, 6);
  b.Ended(1000, ann, EndedWhy::kReleasing);
  return b;
}

TEST(Exclusion, WhoAsksForReleaseOnDisconnectAcceptsIt) {
  EXPECT_VIOLATED(Overlap({.risky = true}, false, true), "");
  EXPECT_VIOLATED(Overlap({.risky = false}, false, true), "I1");
}

TEST(Exclusion, ButStreamsDoNotBreakInCalmTimes) { EXPECT_VIOLATED(Overlap({.risky = true}, true, false), "I1"); }

TEST(Exclusion, TheOneWhoTakesItOverDoesNotExcuseIt) {
  HistoryBuilder b;
  b.Granted(10, b.Asks(0, "ann"), 5, 1000);
  b.Fault(50, FaultKind::kLinkReset);
  b.Holds(500, 900, b.Asks(1, "bob", {.risky = true}), 6);
  EXPECT_VIOLATED(b, "I1");
}

HistoryBuilder Forgetful(int64_t forgot_at, const std::string& lock, int64_t believes_until, int64_t found = 0) {
  HistoryBuilder b;
  b.Fault(forgot_at, FaultKind::kStoreEmptied);
  b.Forgot(forgot_at, lock, found);
  const int64_t ann = b.Asks(100, "ann");
  b.Granted(110, ann, 5, 1000);
  for (int64_t at = 900; at < believes_until; at += 900) b.Believes(at, ann, std::min(at + 1000, believes_until));
  b.Granted(800, b.Asks(111, "bob"), 6, 5000);
  return b;
}

TEST(Exclusion, AStoreThatForgotExcusesIt) { EXPECT_VIOLATED(Forgetful(700, "", 1500), ""); }
TEST(Exclusion, AlsoWhenItForgotThisLockOnly) { EXPECT_VIOLATED(Forgetful(700, "k", 1500), ""); }
TEST(Exclusion, ButNotWhenItForgotAnother) { EXPECT_VIOLATED(Forgetful(700, "other", 1500), "I1"); }
TEST(Exclusion, NorWhenItForgotBeforeTheFirstAsked) { EXPECT_VIOLATED(Forgetful(50, "", 1500), "I1"); }
TEST(Exclusion, NorWhenItForgotAfterTheSecondGrant) { EXPECT_VIOLATED(Forgetful(810, "", 1500), "I1"); }
TEST(Exclusion, NorWhatIsGrantedOnceBrokersHoldOff) {
  EXPECT_VIOLATED(Forgetful(700, "", 1500, 801), "");
  EXPECT_VIOLATED(Forgetful(700, "", 1500, 799), "I1");
}
TEST(Exclusion, NorForLongerThanATtl) { EXPECT_VIOLATED(Forgetful(700, "", 2800), "I1"); }

TEST(Exclusion, WhoWasFirstIsNotToldByTokensThatMayRepeat) {
  HistoryBuilder b;
  b.Fault(5, FaultKind::kStoreClock, -5000);
  const int64_t ann = b.Asks(10, "ann");
  b.Granted(20, ann, 9, 1000);
  b.Fault(50, FaultKind::kStoreEmptied);
  b.Forgot(50);
  b.Holds(500, 900, b.Asks(60, "bob"), 6);
  EXPECT_VIOLATED(b, "");
}

// ann was given the lock before the store forgot, and is told when bob has it.
TEST(Exclusion, WhoWasFirstIsNotToldByWhoIsToldFirst) {
  for (const int64_t forgot : {5, 50, 450}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(10, "ann");
    b.Fault(forgot, FaultKind::kStoreEmptied);
    b.Forgot(forgot);
    b.Granted(400, b.Asks(100, "bob"), 9, 1000);
    b.Granted(500, ann, 6, 900);
    EXPECT_VIOLATED(b, forgot == 50 ? "" : "I1 I2");
  }
}

// ---- Against the store ----

TEST(Holding, BeliefWithinIsRight) {
  HistoryBuilder b;
  b.Calm();
  b.HoldsInStore(10, 50, b.Asks(0, "ann"), 5);
  EXPECT_VIOLATED(b, "");
}

TEST(Holding, BeliefInWhatTheStoreNeverGave) {
  HistoryBuilder b;
  b.HoldsInStore(10, 50, b.Asks(0, "ann"), 5);
  b.Holds(60, 90, b.Asks(1, "bob"), 6);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Holding, BeliefBeforeTheStoreGaveIt) {
  HistoryBuilder b;
  const int64_t lease = b.Asks(0, "ann");
  b.Took(11, lease, 5);
  b.Granted(10, lease, 5, 100);
  b.Freed(200, lease, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "I1");
}

HistoryBuilder Outlived(int64_t believes_until, FreedHow how, const Terms& terms = {}) {
  HistoryBuilder b;
  const int64_t lease = b.Asks(0, "ann", terms);
  b.Took(9, lease, 5);
  b.Granted(10, lease, 5, believes_until);
  b.Freed(500, lease, how);
  return b;
}

TEST(Holding, BeliefMayEndAsTheStoreLetsGo) { EXPECT_VIOLATED(Outlived(500, FreedHow::kExpired), ""); }
TEST(Holding, BeliefLongerThanTheKey) { EXPECT_VIOLATED(Outlived(501, FreedHow::kExpired), "I1"); }
TEST(Holding, ReleasedUnderAClientThatBelieves) { EXPECT_VIOLATED(Outlived(501, FreedHow::kReleased), "I3"); }
TEST(Holding, WhichMayAskForThat) { EXPECT_VIOLATED(Outlived(501, FreedHow::kReleased, {.risky = true}), ""); }
TEST(Holding, ForgottenUnderIt) {
  HistoryBuilder b = Outlived(1500, FreedHow::kForgotten);
  EXPECT_VIOLATED(b, "I1");
  b.Forgot(500);
  EXPECT_VIOLATED(b, "");
}
TEST(Holding, ForgottenButBelievedForLongerThanATtl) {
  HistoryBuilder b = Outlived(2600, FreedHow::kForgotten);
  b.Forgot(500);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Holding, TheStoreGivesToOneAtATime) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(0, "bob");
  b.Took(10, ann, 5);
  b.Took(20, bob, 6);
  b.Freed(30, ann);
  b.Freed(40, bob);
  EXPECT_VIOLATED(b, "I1");
}

// ---- I3 where nobody believes ----

HistoryBuilder ReleasedUntold(const Terms& terms) {
  HistoryBuilder b;
  b.Calm();
  const int64_t lease = b.Asks(0, "ann", terms);
  b.Took(9, lease, 5);
  b.Freed(30, lease);
  return b;
}

TEST(Release, HasAReason) { EXPECT_VIOLATED(ReleasedUntold({}), "I3"); }
TEST(Release, OfADetachedLeaseOrByMaxHoldIsTheBrokersBusiness) {
  EXPECT_VIOLATED(ReleasedUntold({.detached = true}), "");
  EXPECT_VIOLATED(ReleasedUntold({.max_hold = 10}), "");
}
TEST(Release, OfAWaitThatTimedOutIsOne) { EXPECT_VIOLATED(ReleasedUntold({.max_wait = 20}), ""); }
TEST(Release, OfAClientThatGaveUpIsOne) {
  HistoryBuilder b = ReleasedUntold({});
  b.GivesUp(29, 0);
  EXPECT_VIOLATED(b, "");
}
TEST(Release, BeforeTheClientGivesUpIsNone) {
  HistoryBuilder b = ReleasedUntold({});
  b.GivesUp(31, 0);
  EXPECT_VIOLATED(b, "I3");
}
TEST(Release, OfOneWhoWasToldNeedsItsEnd) {
  HistoryBuilder b = ReleasedUntold({});
  b.Granted(10, 0, 5, 20);
  EXPECT_VIOLATED(b, "I3");
}

// ---- I1' ----

TEST(Register, AcceptsGrowingTokens) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  b.Holds(10, 50, ann, 5);
  b.Wrote(20, ann, 5);
  b.Wrote(21, ann, 5);
  b.Holds(60, 90, bob, 6);
  b.Wrote(70, bob, 6);
  b.Wrote(75, ann, 5, false);
  EXPECT_VIOLATED(b, "");
}

TEST(Register, AcceptsNoSmallerToken) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  b.Holds(10, 50, ann, 5);
  b.Holds(60, 90, bob, 6);
  b.Wrote(70, bob, 6);
  b.Wrote(75, ann, 5);
  EXPECT_VIOLATED(b, "I1'");
}

HistoryBuilder Rejected(int64_t at) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.Holds(10, 50, ann, 5);
  b.Wrote(at, ann, 5, false);
  return b;
}

TEST(Register, RejectsNobodyWhoBelieves) {
  EXPECT_VIOLATED(Rejected(49), "I1'");
  EXPECT_VIOLATED(Rejected(50), "");
}

TEST(Register, ExceptWhenTheStoreForgot) {
  HistoryBuilder b = Rejected(49);
  b.Forgot(30);
  EXPECT_VIOLATED(b, "");
}

TEST(Register, IsAskedOfTheGrantThatWasWrittenUnder) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.detached = true});
  b.HoldsInStore(10, 50, ann, 5);
  b.Wrote(49, ann, 5, false);
  b.Forgot(30);
  b.HoldsInStore(60, 90, ann, 7);
  EXPECT_VIOLATED(b, "");
  b.Wrote(61, ann, 5, false);
  EXPECT_VIOLATED(b, "");
  b.Wrote(62, ann, 7, false);
  EXPECT_VIOLATED(b, "I1'");
}

TEST(Register, OrWhenNoOrderOfTokensCouldBeKept) {
  HistoryBuilder b = Rejected(49);
  b.Fault(1, FaultKind::kStoreClock, -1000);
  EXPECT_VIOLATED(b, "I1'");
  b.Fault(2, FaultKind::kStoreEmptied);
  EXPECT_VIOLATED(b, "");
}

}  // namespace
}  // namespace distlock::sim
