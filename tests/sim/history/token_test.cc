// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

HistoryBuilder TwoHolders(uint64_t first, uint64_t second) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann"), first);
  b.Holds(100, 150, b.Asks(90, "bob"), second);
  return b;
}

TEST(Tokens, GrowForWhoAsksLater) {
  EXPECT_VIOLATED(TwoHolders(5, 6), "");
  EXPECT_VIOLATED(TwoHolders(6, 5), "I2");
}

TEST(Tokens, AreNeverUsedTwice) { EXPECT_VIOLATED(TwoHolders(5, 5), "I2"); }

TEST(Tokens, OfTwoLocksAreNotCompared) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann"), 6);
  b.Holds(100, 150, b.Asks(90, "bob", {.lock = "other"}), 6);
  EXPECT_VIOLATED(b, "");
}

TEST(Tokens, GrowInTheOrderOfBelief) {
  HistoryBuilder b;
  const int64_t bob = b.Asks(0, "bob");
  b.Holds(10, 50, b.Asks(0, "ann"), 6);
  b.Holds(60, 90, bob, 5);
  EXPECT_VIOLATED(b, "I2");
}

TEST(Tokens, MayBeToldInAnotherOrderThanGiven) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(0, "bob");
  b.Took(5, ann, 5);
  b.Freed(100, ann, FreedHow::kExpired);
  b.Took(101, bob, 6);
  b.Granted(102, bob, 6, 500);
  b.Granted(103, ann, 5, 103);
  b.Fault(1, FaultKind::kLinkSlow, 1000);
  b.Freed(600, bob, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "");
}

TEST(Tokens, GrowInTheOrderInWhichTheStoreGives) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(0, "bob");
  b.Took(5, ann, 6);
  b.Freed(50, ann, FreedHow::kExpired);
  b.Took(60, bob, 5);
  b.Freed(90, bob, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "I2");
}

// ---- A store that forgets ----

HistoryBuilder AcrossFault(FaultKind kind, int64_t value = 0) {
  HistoryBuilder b = TwoHolders(6, 5);
  b.Fault(60, kind, value);
  b.Forgot(60);
  return b;
}

TEST(Tokens, GrowOverRestartsEmptyingAndFailover) {
  EXPECT_VIOLATED(AcrossFault(FaultKind::kStoreEmptied), "I2");
  EXPECT_VIOLATED(AcrossFault(FaultKind::kStoreRestarted), "I2");
  EXPECT_VIOLATED(AcrossFault(FaultKind::kKeyDeleted), "I2");
}

TEST(Tokens, GrowWithAClockThatGoesBackAsLongAsTheStoreRemembers) {
  EXPECT_VIOLATED(AcrossFault(FaultKind::kStoreClock, -1000), "I2");
}

TEST(Tokens, CannotGrowWhenItsClockGoesBackAndItForgets) {
  HistoryBuilder b = AcrossFault(FaultKind::kStoreEmptied);
  b.Fault(55, FaultKind::kStoreClock, -1000);
  EXPECT_VIOLATED(b, "");
}

TEST(Tokens, GrowWhenWhatIsForgottenIsAnotherLock) {
  HistoryBuilder b = TwoHolders(6, 5);
  b.Fault(55, FaultKind::kStoreClock, -1000);
  b.Fault(60, FaultKind::kKeyDeleted, 0, "", "other");
  EXPECT_VIOLATED(b, "I2");
  b.Fault(60, FaultKind::kKeyDeleted, 0, "", "k");
  EXPECT_VIOLATED(b, "");
}

TEST(Tokens, GrowWhenItsClockOnlyJumpedAhead) {
  HistoryBuilder b = AcrossFault(FaultKind::kStoreEmptied);
  b.Fault(55, FaultKind::kStoreClock, 1000);
  EXPECT_VIOLATED(b, "I2");
}

TEST(Tokens, AHoldIsBackWhereASlotMovesToANodeWhoseClockIsBehind) {
  for (const bool moves : {true, false}) {
    for (const FreedHow how : {FreedHow::kExpired, FreedHow::kReleased}) {
      HistoryBuilder b;
      b.Raw().slots_move = moves;
      const int64_t ann = b.Asks(0, "ann");
      b.Took(5, ann, 5);
      b.Freed(50, ann, how);
      b.Took(51, ann, 5);
      b.Freed(60, ann, FreedHow::kExpired);
      EXPECT_VIOLATED(b, moves && how == FreedHow::kExpired ? "" : "I2");
    }
  }
}

TEST(Tokens, OfTheLastMomentsBeforeAFailoverMayRepeat) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann"), 6);
  b.Fault(60, FaultKind::kFailover);
  b.Holds(100, 150, b.Asks(90, "bob"), 5);
  EXPECT_VIOLATED(b, "");
  HistoryBuilder later;
  later.Holds(10, 50, later.Asks(0, "ann"), 6);
  later.Fault(400, FaultKind::kFailover);
  later.Holds(500, 550, later.Asks(490, "bob"), 5);
  EXPECT_VIOLATED(later, "I2");
}

TEST(Tokens, AKeyThatIsBackAfterAFailoverIsNoNewGrant) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.HoldsInStore(10, 50, ann, 5);
  b.Took(61, ann, 5);
  b.Freed(1000, ann, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "I2");
  b.Forgot(60);
  EXPECT_VIOLATED(b, "");
}

TEST(Tokens, OfAGrantThatIsToldLateButWasForgottenMayBeSmaller) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.ttl = 15000});
  const int64_t bob = b.Asks(1, "bob");
  b.Took(10, ann, 5);
  b.Freed(20, ann, FreedHow::kForgotten);
  b.Fault(20, FaultKind::kStoreEmptied);
  b.HoldsInStore(100, 150, bob, 6);
  b.Granted(200, ann, 5, 500);
  b.Ended(300, ann);
  EXPECT_VIOLATED(b, "I1 I2");
  b.Forgot(20);
  EXPECT_VIOLATED(b, "");
}

// As clients see it: given at some time between asking and being told.
// Its stream had ended for its broker, which frees such a lease at once.
TEST(Tokens, OfAGrantThatIsToldLateMayBeSmallerWhereThatIsAccepted) {
  for (const bool risky : {false, true}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.risky = risky});
    const int64_t bob = b.Asks(1, "bob");
    b.Fault(5, FaultKind::kLinkOneWay, 70, "ann");
    b.Took(10, ann, 5);
    b.Freed(20, ann);
    b.HoldsInStore(30, 50, bob, 6);
    b.Granted(75, ann, 5, 100);
    EXPECT_VIOLATED(b, risky ? "" : "I2 I3");
  }
}

TEST(Tokens, OfAGrantOnItsWayWhileTheStoreForgotMayBeSmaller) {
  for (const int64_t forgot : {5, 20, 120}) {
    HistoryBuilder b;
    b.Fault(4, FaultKind::kLinkSlow, 500);
    const int64_t ann = b.Asks(10, "ann");
    b.Fault(forgot, FaultKind::kStoreClock, 6000);
    b.Forgot(forgot);
    b.Holds(100, 150, b.Asks(90, "bob"), 6);
    b.Holds(200, 300, ann, 5);
    EXPECT_VIOLATED(b, forgot == 20 ? "" : "I2");
  }
}

// ---- I12 ----

TEST(OneToken, ARepeatGetsTheSame) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.detached = true});
  b.Granted(10, ann, 5, 500);
  b.AsksAgain(20, ann);
  b.Granted(30, ann, 5, 520);
  b.Ended(100, ann);
  EXPECT_VIOLATED(b, "");
}

HistoryBuilder Repeated(int64_t ended) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.detached = true});
  b.Granted(10, ann, 5, 500);
  b.Ended(ended, ann);
  b.AsksAgain(20, ann);
  b.Granted(30, ann, 6, 520);
  return b;
}

TEST(OneToken, ARepeatGetsAnotherOnlyAfterTheEnd) {
  EXPECT_VIOLATED(Repeated(25), "");
  EXPECT_VIOLATED(Repeated(35), "I12");
}

TEST(OneToken, ByTheStoresWordWhereItCanBeSeen) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.detached = true});
  b.Took(5, ann, 5);
  b.Granted(10, ann, 5, 20);
  b.AsksAgain(20, ann);
  b.Granted(30, ann, 6, 40);
  b.Took(29, ann, 6);
  b.Freed(50, ann, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "I1 I12");
}

TEST(OneToken, ByTheStoresWordWhenItHadLetGo) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.detached = true});
  b.Took(5, ann, 5);
  b.Granted(10, ann, 5, 20);
  b.Freed(25, ann, FreedHow::kExpired);
  b.AsksAgain(26, ann);
  b.Granted(30, ann, 6, 40);
  b.Took(29, ann, 6);
  b.Freed(50, ann, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "");
}

TEST(OneToken, ThatAnOlderStoreHasItAgainComesTooLate) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.detached = true});
  b.Took(5, ann, 5);
  b.Granted(10, ann, 5, 20);
  b.Freed(25, ann, FreedHow::kForgotten);
  b.AsksAgain(26, ann);
  b.Granted(30, ann, 6, 40);
  b.Took(29, ann, 6);
  b.Freed(45, ann, FreedHow::kReleased);
  b.Forgot(50);
  b.Took(50, ann, 5);
  b.Freed(60, ann, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "");
}

TEST(OneToken, AStreamTellsOfAGrantOnce) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.Granted(10, ann, 5, 500);
  b.Granted(11, ann, 5, 500);
  b.Ended(100, ann);
  EXPECT_VIOLATED(b, "I12");
}

// A stream that broke before it told: the library asks again through another, as another owner.
TEST(OneToken, AGrantThatNobodyWasToldOfDoesNotCount) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.Took(5, ann, 5);
  b.Fault(6, FaultKind::kLinkReset);
  b.Freed(500, ann);
  b.Took(501, ann, 6);
  b.Granted(502, ann, 6, 800);
  b.Ended(700, ann);
  b.Freed(710, ann);
  EXPECT_VIOLATED(b, "");
}

}  // namespace
}  // namespace distlock::sim
