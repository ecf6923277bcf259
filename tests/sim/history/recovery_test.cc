// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

// ---- I7 ----

// ann dies at 1000 with a belief until 1500; the store lets go at `freed`.
HistoryBuilder Crashed(const Terms& terms, int64_t freed, FreedHow how = FreedHow::kReleased) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", terms);
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 1500);
  b.Ended(1000, ann, EndedWhy::kClientDied);
  b.Fault(1000, FaultKind::kClientKilled, 0, "ann");
  b.Freed(freed, ann, how);
  return b;
}

TEST(Recovery, FromAClientsCrashTakesAValidity) {
  const Terms terms{.ttl = 20000, .freed_by_promise = true};
  EXPECT_VIOLATED(Crashed(terms, 2400), "");
  EXPECT_VIOLATED(Crashed(terms, 2600), "I7");
}

TEST(Recovery, FromACrashThatIsHeardOfLateTakesAValidityFromThen) {
  for (const int64_t freed : {4400, 4600}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.ttl = 20000, .freed_by_promise = true});
    b.Took(9, ann, 5);
    b.Granted(10, ann, 5, 1400);
    b.Ended(1000, ann, EndedWhy::kClientDied);
    b.Fault(1000, FaultKind::kClientKilled, 2000, "ann");
    b.Freed(freed, ann);
    EXPECT_VIOLATED(b, freed == 4400 ? "" : "I7");
  }
}

TEST(Recovery, AndItsLockDelay) {
  const Terms terms{.ttl = 20000, .lock_delay = 3000, .freed_by_promise = true};
  EXPECT_VIOLATED(Crashed(terms, 5400), "");
  EXPECT_VIOLATED(Crashed(terms, 5600), "I7");
}

TEST(Recovery, OrATtlWhereThatWasAskedFor) {
  EXPECT_VIOLATED(Crashed({.ttl = 20000}, 29400, FreedHow::kExpired), "");
  EXPECT_VIOLATED(Crashed({.ttl = 20000}, 30600, FreedHow::kExpired), "I7");
}

TEST(Recovery, IsAlsoOwedWhenItNeverCame) {
  HistoryBuilder b = Crashed({.ttl = 20000, .freed_by_promise = true}, 2400);
  b.Raw().records.pop_back();
  b.Healed(2500);
  EXPECT_VIOLATED(b, "");
  b.Quiet(2600);
  EXPECT_VIOLATED(b, "I7");
}

TEST(Recovery, FromABrokersCrashTakesATtl) {
  HistoryBuilder b = Crashed({.ttl = 20000, .freed_by_promise = true}, 20000, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "I7");
  b.Fault(900, FaultKind::kBrokerKilled, 100, "broker 1");
  EXPECT_VIOLATED(b, "");
}

TEST(Recovery, ButNotMore) {
  HistoryBuilder b = Crashed({.ttl = 20000, .freed_by_promise = true}, 40000, FreedHow::kExpired);
  b.Fault(900, FaultKind::kBrokerKilled, 100, "broker 1");
  EXPECT_VIOLATED(b, "I7");
}

TEST(Recovery, ExceptByHowMuchTheStoresClockWentBack) {
  for (const int64_t step : {-20000, -2000, 20000}) {
    HistoryBuilder b = Crashed({.ttl = 20000, .freed_by_promise = true}, 40000, FreedHow::kExpired);
    b.Fault(900, FaultKind::kBrokerKilled, 100, "broker 1");
    b.Fault(950, FaultKind::kStoreClock, step);
    EXPECT_VIOLATED(b, step == -20000 ? "" : "I7");
  }
}

TEST(Recovery, AlsoWhenAnotherServerTakesOverThatWasNeverSteppedAhead) {
  for (const int64_t failover : {6, 20000}) {
    HistoryBuilder b = Crashed({.ttl = 20000, .freed_by_promise = true}, 69400, FreedHow::kExpired);
    b.Fault(5, FaultKind::kStoreClock, 20000);
    b.Fault(failover, FaultKind::kFailover);
    b.Forgot(failover);
    EXPECT_VIOLATED(b, failover == 20000 ? "" : "I7");
  }
}

TEST(Recovery, AConfirmedReleaseHasFreedIt) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 1000);
  b.Ended(50, ann);
  b.Released(52, ann);
  b.Freed(400, ann, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "I7");
}

TEST(Recovery, OfAGrantThatNobodyWasTold) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.Took(9, ann, 5);
  b.GivesUp(10, ann);
  b.Freed(3400, ann, FreedHow::kExpired);
  EXPECT_VIOLATED(b, "");
  HistoryBuilder longer;
  const int64_t eve = longer.Asks(0, "eve");
  longer.Took(9, eve, 5);
  longer.GivesUp(10, eve);
  longer.Freed(3600, eve, FreedHow::kExpired);
  EXPECT_VIOLATED(longer, "I7");
}

TEST(Recovery, InCalmTimesOfAGrantThatNobodyWaitedForIsPrompt) {
  for (const bool freed_by_promise : {false, true}) {
    for (const bool in_time : {false, true}) {
      HistoryBuilder b;
      b.Calm();
      const int64_t ann = b.Asks(0, "ann", {.lock_delay = 500, .freed_by_promise = freed_by_promise});
      b.GivesUp(8, ann);
      b.Took(9, ann, 5);
      b.Freed((freed_by_promise ? 1600 : 2600) + (in_time ? 5 : 15), ann);
      EXPECT_VIOLATED(b, in_time ? "" : "I7");
    }
  }
}

// ---- I6 ----

TEST(Leftovers, AreNone) {
  HistoryBuilder b;
  b.Quiet(1000);
  EXPECT_VIOLATED(b, "");
  b.Left(1000, 3, "keys in the store");
  std::string stories;
  EXPECT_EQ(b.Violated(&stories), "I6");
  EXPECT_EQ(stories, "I6: left over at 1.000000 s: 3 keys in the store\n");
}

// ---- I11 ----

TEST(Liveness, EverybodyIsAnswered) {
  HistoryBuilder b;
  b.Fault(0, FaultKind::kStorePaused, 10);
  const int64_t ann = b.Asks(5, "ann");
  b.Healed(100);
  b.Quiet(5000);
  EXPECT_VIOLATED(b, "I11");
  b.Refused(200, ann);
  EXPECT_VIOLATED(b, "");
}

TEST(Liveness, OrGivesUp) {
  HistoryBuilder b;
  b.GivesUp(200, b.Asks(5, "ann"));
  b.Quiet(5000);
  EXPECT_VIOLATED(b, "");
}

// No client holds the lock, and ann waits from 10 s after the last fault on.
HistoryBuilder LongWait(int64_t answered) {
  HistoryBuilder b;
  b.Fault(0, FaultKind::kStorePaused, 10);
  const int64_t ann = b.Asks(10000, "ann", {.max_wait = 60000});
  b.Healed(100);
  b.Refused(answered, ann, core::RefusalReason::kWaitTimeout);
  b.Took(9000, b.Asks(8990, "bob", {.lock = "other"}), 1);
  b.Freed(9001, 1, FreedHow::kExpired);
  b.GivesUp(9001, 1);
  return b;
}

TEST(Liveness, AWaitIsNotLongerThanOthersHold) {
  EXPECT_VIOLATED(LongWait(13000), "");
  EXPECT_VIOLATED(LongWait(13200), "I11");
}

TEST(Liveness, WhatOthersHoldIsNotIdle) {
  HistoryBuilder b = LongWait(40000);
  const int64_t eve = b.Asks(9999, "eve", {.ttl = 30000});
  b.Took(10000, eve, 5);
  b.Granted(10001, eve, 5, 37000);
  b.Ended(37000, eve);
  b.Freed(37001, eve);
  EXPECT_VIOLATED(b, "");
}

TEST(Liveness, IsJudgedByBeliefWhereTheStoreIsNotSeen) {
  HistoryBuilder b;
  b.Raw().calm = true;
  b.Raw().longest_ttl_ns = 0;
  b.Raw().slack_ns = Ms(1000);
  const int64_t ann = b.Asks(0, "ann");
  for (int i = 0; i < 10; ++i) {
    const int64_t other = b.Asks(0, "bob");
    b.Holds(10 + 2100 * i, 400 + 2100 * i, other, 5 + static_cast<uint64_t>(i));
  }
  b.Holds(21300, 21400, ann, 50);
  // Each hand-over is late (I5), but they add up to no more than all of them may cost.
  EXPECT_VIOLATED(b, "I5");
}

// ann waits until 9000 for a lock that eve may hold unseen, if hers is a request for several locks.
HistoryBuilder HeldUnseen(bool together) {
  HistoryBuilder b;
  b.Raw().calm = true;
  b.Raw().longest_ttl_ns = 0;
  b.Refused(9000, b.Asks(0, "ann", {.max_wait = 9000}), core::RefusalReason::kWaitTimeout);
  b.Refused(9100, b.Asks(0, "eve", {.max_wait = 9100, .together = together}), core::RefusalReason::kWaitTimeout);
  return b;
}

TEST(Liveness, ALockMayBeHeldByWhoWaitsForAnotherOne) {
  EXPECT_VIOLATED(HeldUnseen(true), "");
  EXPECT_NE(HeldUnseen(false).Violated(), "");
}

// ---- Contradictory records ----

TEST(History, ThatContradictsItselfIsRefused) {
  HistoryBuilder b;
  b.Granted(10, b.Asks(20, "ann"), 5, 50);
  EXPECT_VIOLATED(b, "history");
  HistoryBuilder no_token;
  no_token.Granted(10, no_token.Asks(0, "ann"), 0, 50);
  EXPECT_VIOLATED(no_token, "history");
  HistoryBuilder unsorted;
  unsorted.Asks(20, "ann");
  unsorted.Asks(10, "ann");
  EXPECT_EQ(CheckAll(unsorted.Raw()).at(0).invariant, "history");
}

}  // namespace
}  // namespace distlock::sim
