// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

// ---- I5 by the store's word ----

HistoryBuilder Idle(int64_t taken, bool calm = true) {
  HistoryBuilder b;
  if (calm) b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.HoldsInStore(taken, taken + 50, bob, 6);
  return b;
}

TEST(WakeUp, IsPrompt) {
  EXPECT_VIOLATED(Idle(60), "");
  EXPECT_VIOLATED(Idle(200), "I5");
}

TEST(WakeUp, ComesAtAll) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.Healed(400);
  EXPECT_VIOLATED(b, "I5");
}

TEST(WakeUp, OfOneWhoWasAnsweredIsNotNeeded) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob", {.max_wait = 40});
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.Refused(41, bob, core::RefusalReason::kWaitTimeout);
  b.Healed(1000);
  EXPECT_VIOLATED(b, "");
}

TEST(WakeUp, OfNobodyIsNotNeeded) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(900, "eve");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.GivesUp(40, bob);
  b.Unqueued(930, bob);
  b.HoldsInStore(931, 950, eve, 6);
  EXPECT_VIOLATED(b, "");
}

// ann's lock ends at 50 without being handed on; bob knows that its ttl could have lasted.
HistoryBuilder Ended(const Terms& terms, FreedHow how, int64_t taken) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann", terms);
  const int64_t bob = b.Asks(1, "bob");
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 40);
  b.Queued(20, bob, 1);
  b.Ended(40, ann);
  b.Freed(50, ann, how);
  b.HoldsInStore(taken, taken + 50, bob, 6);
  return b;
}

TEST(WakeUp, FromAnEndWithoutHandOffComesWithTheEndOfTheTtl) {
  EXPECT_VIOLATED(Ended({}, FreedHow::kReleased, 100), "");
  EXPECT_VIOLATED(Ended({}, FreedHow::kReleased, 200), "I5");
  EXPECT_VIOLATED(Ended({}, FreedHow::kExpired, 2150), "");
  EXPECT_VIOLATED(Ended({}, FreedHow::kExpired, 2200), "I5");
  EXPECT_VIOLATED(Ended({.lock_delay = 1000}, FreedHow::kReleased, 3150), "");
  EXPECT_VIOLATED(Ended({.lock_delay = 1000}, FreedHow::kReleased, 3200), "I5");
}

TEST(WakeUp, ComesLateOnlyForAFault) {
  HistoryBuilder b = Idle(3000, false);
  EXPECT_VIOLATED(b, "I5");
  b.Fault(40, FaultKind::kChannelLost, 10, "broker 1");
  EXPECT_VIOLATED(b, "");
  HistoryBuilder later = Idle(30000, false);
  later.Fault(40, FaultKind::kChannelLost, 10, "broker 1");
  EXPECT_VIOLATED(later, "I5");
}

TEST(WakeUp, IsNotDelayedByTheLockDelayOfOneWhoReleased) {
  HistoryBuilder b = Ended({.lock_delay = 1000}, FreedHow::kReleased, 200);
  EXPECT_VIOLATED(b, "");
  b.Released(52, 0);
  EXPECT_VIOLATED(b, "I5");
}

TEST(WakeUp, IsDelayedByTheLockDelayOfAnEndBeforeTheReleasedGrant) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann", {.lock_delay = 1000, .detached = true});
  const int64_t bob = b.Asks(1, "bob");
  b.Took(9, ann, 5);
  b.Queued(20, bob, 1);
  b.Freed(50, ann);
  b.Queued(55, ann, 2);
  b.HoldsInStore(1060, 1100, bob, 6);
  b.Took(1101, ann, 7);
  b.Granted(1102, ann, 7, 1400);
  b.Ended(1110, ann);
  b.Freed(1112, ann);
  b.Released(1114, ann);
  EXPECT_VIOLATED(b, "");
}

// bob is given the lock at 52, and hears of it at `told`.
HistoryBuilder Told(int64_t told, const Terms& terms = {}) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob", terms);
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.Took(52, bob, 6);
  b.Granted(told, bob, 6, told + 500);
  b.Ended(told + 100, bob);
  b.Freed(told + 101, bob);
  return b;
}

TEST(WakeUp, ReachesItsClient) {
  EXPECT_VIOLATED(Told(150), "");
  EXPECT_VIOLATED(Told(160), "I5");
  EXPECT_VIOLATED(Told(160, {.detached = true}), "");
}

// Bob's grant was not noticed in time and expired; `again` is when bob has a place again, after eve.
HistoryBuilder Missed(int64_t again) {
  HistoryBuilder b;
  const int64_t bob = b.Asks(1, "bob", {.ttl = 60});
  b.Queued(20, bob, 1);
  b.Took(52, bob, 6);
  b.Freed(112, bob, FreedHow::kExpired);
  b.Queued(again, bob, 9);
  const int64_t eve = b.Asks(2, "eve");
  b.HoldsInStore(114, 900, eve, 7);
  b.Took(902, bob, 8);
  b.Granted(903, bob, 8, 950);
  b.Ended(920, bob);
  b.Freed(921, bob);
  return b;
}

TEST(WakeUp, OfAGrantThatEndedUnheardIsANewPlace) {
  EXPECT_VIOLATED(Missed(140), "");
  EXPECT_VIOLATED(Missed(700), "I5");
}

TEST(WakeUp, OfOneWhoHasJustGivenUpNeedNotReachIt) {
  HistoryBuilder b;
  b.Calm();
  const int64_t bob = b.Asks(1, "bob");
  b.GivesUp(50, bob);
  b.Took(52, bob, 6);
  b.Freed(53, bob);
  b.Quiet(1000);
  EXPECT_VIOLATED(b, "");
}

// ---- I5 by what clients see ----

HistoryBuilder IdleForClients(int64_t granted) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  b.Holds(10, 50, ann, 5);
  b.Holds(granted, granted + 50, bob, 6);
  return b;
}

TEST(HandOver, IsPrompt) {
  EXPECT_VIOLATED(IdleForClients(60), "");
  EXPECT_VIOLATED(IdleForClients(200), "I5");
}

// ann gives up at 10, perhaps in the instant of a grant that she never hears of; her broker waits out its promise.
HistoryBuilder GivenUp(int64_t granted) {
  HistoryBuilder b;
  b.Calm();
  b.GivesUp(10, b.Asks(0, "ann", {.freed_by_promise = true}));
  b.Holds(granted, granted + 50, b.Asks(1, "bob"), 6);
  return b;
}

TEST(HandOver, FromOneWhoGaveUpMayTakeAPromise) {
  EXPECT_VIOLATED(GivenUp(1050), "");
  EXPECT_VIOLATED(GivenUp(1300), "I5");
}

// ann asks another broker at 10, perhaps in the instant of a grant through the first, which keeps the lock for her.
HistoryBuilder MovedOn(int64_t granted) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann", {.freed_by_promise = true});
  b.MovesOn(10, ann);
  b.Holds(granted, granted + 50, ann, 6);
  return b;
}

TEST(HandOver, FromATryThatWasLeftMayTakeAPromise) {
  EXPECT_VIOLATED(MovedOn(1050), "");
  EXPECT_VIOLATED(MovedOn(1300), "I5");
}

TEST(HandOver, OfALockThatNobodyHad) {
  HistoryBuilder b;
  b.Calm();
  b.Holds(200, 250, b.Asks(0, "ann"), 5);
  EXPECT_VIOLATED(b, "I5");
}

TEST(HandOver, ToSomebodyElseIsOneToo) {
  HistoryBuilder b = IdleForClients(200);
  b.Holds(60, 190, b.Asks(0, "eve"), 7);
  b.Raw().records.erase(b.Raw().records.end() - 1);
  EXPECT_VIOLATED(b, "I2");  // bob's token is smaller; but nothing stood idle
}

HistoryBuilder Died(const Terms& anns, int64_t granted, int64_t longest_ttl = 0) {
  HistoryBuilder b;
  b.Raw().recovery_ns = 0;
  b.Raw().longest_ttl_ns = Ms(longest_ttl);
  b.Raw().validity_ns = Ms(1000);
  const int64_t ann = b.Asks(0, "ann", anns);
  const int64_t bob = b.Asks(1, "bob");
  b.Granted(10, ann, 5, 1000);
  b.Ended(50, ann, EndedWhy::kClientDied);
  b.Fault(50, FaultKind::kClientKilled, 0, "ann");
  b.Holds(granted, granted + 50, bob, 6);
  return b;
}

TEST(HandOver, FromTheDeadTakesAValidityOrATtl) {
  EXPECT_VIOLATED(Died({.freed_by_promise = true}, 2500), "");
  EXPECT_VIOLATED(Died({.freed_by_promise = true}, 2700), "I5");
  EXPECT_VIOLATED(Died({}, 4500), "");
  EXPECT_VIOLATED(Died({}, 4700), "I5");
  // Bob's broker may know of an earlier holder, and of a longer ttl.
  EXPECT_VIOLATED(Died({}, 5500, 3000), "");
  EXPECT_VIOLATED(Died({}, 8700, 3000), "I5");
  EXPECT_VIOLATED(Died({.lock_delay = 500, .freed_by_promise = true}, 3000), "");
  EXPECT_VIOLATED(Died({.lock_delay = 500, .freed_by_promise = true}, 3200), "I5");
}

TEST(HandOver, FromOneWhoDiedInTheInstantOfTheGrantTakesAsLong) {
  const auto died = [](int64_t granted) {
    HistoryBuilder b;
    b.Raw().recovery_ns = b.Raw().longest_ttl_ns = 0;
    const int64_t ann = b.Asks(0, "ann");
    const int64_t eve = b.Asks(1, "eve", {.freed_by_promise = true});
    const int64_t bob = b.Asks(2, "bob");
    b.Holds(10, 50, ann, 5);
    b.Granted(60, eve, 6, 0);
    b.Ended(60, eve, EndedWhy::kClientDied);
    b.Fault(60, FaultKind::kClientKilled, 0, "eve");
    b.Holds(granted, granted + 50, bob, 7);
    return b;
  };
  EXPECT_VIOLATED(died(2500), "");
  EXPECT_VIOLATED(died(2800), "I5");
}

TEST(HandOver, IsOwedToNobodyWhoGaveUp) {
  HistoryBuilder b;
  b.Calm();
  b.Holds(10, 50, b.Asks(0, "ann"), 5);
  b.GivesUp(100, b.Asks(1, "bob"));
  b.Holds(5000, 5050, b.Asks(4990, "eve"), 6);
  EXPECT_VIOLATED(b, "");
}

TEST(HandOver, IsOwedToWhoIsNeverServed) {
  HistoryBuilder b;
  b.Calm();
  b.Holds(10, 50, b.Asks(0, "ann"), 5);
  b.Asks(1, "bob");
  b.Healed(500);
  EXPECT_VIOLATED(b, "I5");
}

}  // namespace
}  // namespace distlock::sim
