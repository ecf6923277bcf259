// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

// ---- I7: max_hold ----

// ann is told at 10 and believes until `until`.
HistoryBuilder Held(const Terms& terms, int64_t until) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", terms);
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, until);
  b.Ended(until, ann, EndedWhy::kReleasing);
  b.Freed(until + 1, ann);
  return b;
}

TEST(MaxHold, EndsBelief) {
  EXPECT_VIOLATED(Held({.max_hold = 1000}, 1105), "");
  EXPECT_VIOLATED(Held({.max_hold = 1000}, 1115), "I7");
  EXPECT_VIOLATED(Held({}, 1115), "");
}

TEST(MaxHold, CountsFromAJoinWhereAServerOfAQuorumWasTroubled) {
  for (const bool troubled : {false, true}) {
    for (const int64_t until : {3'100, 3'120}) {
      HistoryBuilder b = Held({.max_hold = 1'000}, until);
      b.Raw().stray_votes = true;
      if (troubled) b.Fault(5, FaultKind::kStorePaused, 100);
      EXPECT_VIOLATED(b, troubled && until == 3'100 ? "" : "I7");
    }
  }
}

TEST(MaxHold, OfADetachedLeaseIsCountedByTheStore) {
  for (const int64_t step : {-500, 500}) {
    HistoryBuilder b = Held({.max_hold = 1000, .detached = true}, 1600);
    b.Fault(500, FaultKind::kStoreClock, step);
    EXPECT_VIOLATED(b, step < 0 ? "" : "I7");
  }
}

// ---- I8: lock_delay ----

// ann's lease ends at 1000, and bob has the lock at `next`.
HistoryBuilder Followed(EndedWhy why, int64_t next, bool risky = false) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.lock_delay = 2000, .risky = risky});
  const int64_t bob = b.Asks(1, "bob");
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 1500);
  b.Fault(990, FaultKind::kClientKilled, 0, "ann");
  b.Fault(990, FaultKind::kLinkReset, 0, "ann");
  b.Ended(1000, ann, why);
  if (why == EndedWhy::kReleasing) b.Released(1002, ann);
  b.Freed(1001, ann);
  b.HoldsInStore(next, next + 100, bob, 6);
  return b;
}

TEST(LockDelay, KeepsTheNextAwayAfterAnAbnormalEnd) {
  for (const EndedWhy why : {EndedWhy::kClientDied, EndedWhy::kStreamBroke}) {
    EXPECT_VIOLATED(Followed(why, 3001), "");
    EXPECT_VIOLATED(Followed(why, 2990), "I8");
  }
}

TEST(LockDelay, AlsoWhenItsBrokerGaveItUp) {
  for (const auto reason : {core::LostReason::kExpired, core::LostReason::kDrained, core::LostReason::kTaken}) {
    HistoryBuilder b = Followed(EndedWhy::kClientDied, 2980);
    b.Fault(980, FaultKind::kBrokerDrained, 0, "broker 1");
    b.Fault(980, FaultKind::kStoreEmptied, 0);
    b.Lost(995, 0, reason);
    EXPECT_VIOLATED(b, reason == core::LostReason::kTaken ? "" : "I8");
  }
}

TEST(LockDelay, IsNotOwedAfterARelease) { EXPECT_VIOLATED(Followed(EndedWhy::kReleasing, 1003), ""); }

TEST(LockDelay, NorWhereTheClientMayHaveReleased) { EXPECT_VIOLATED(Followed(EndedWhy::kDeadline, 1003), ""); }

TEST(LockDelay, NorByAStoreThatForgot) {
  HistoryBuilder b = Followed(EndedWhy::kClientDied, 2990);
  b.Forgot(2000);
  EXPECT_VIOLATED(b, "");
}

TEST(LockDelay, NorToAClientThatAcceptedTheRisk) {
  EXPECT_VIOLATED(Followed(EndedWhy::kStreamBroke, 2990, /*risky=*/true), "");
}

// ---- I8: min_hold ----

// ann has the lock from 9 on and releases it at 1000; bob has it at `next`.
HistoryBuilder Released(int64_t next, EndedWhy why = EndedWhy::kReleasing) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.min_hold = 3000});
  const int64_t bob = b.Asks(1, "bob");
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 1500);
  b.Ended(1000, ann, why);
  if (why == EndedWhy::kReleasing) b.Released(1002, ann);
  if (why == EndedWhy::kClientDied) b.Fault(990, FaultKind::kClientKilled, 0, "ann");
  b.Freed(1001, ann);
  b.HoldsInStore(next, next + 100, bob, 6);
  return b;
}

TEST(MinHold, KeepsTheNextAwayAfterARelease) {
  EXPECT_VIOLATED(Released(3009), "");
  EXPECT_VIOLATED(Released(2990), "I8");
}

TEST(MinHold, IsNotOwedAfterAnyOtherEnd) { EXPECT_VIOLATED(Released(2990, EndedWhy::kClientDied), ""); }

TEST(MinHold, NorByAStoreThatForgot) {
  HistoryBuilder b = Released(2990);
  b.Forgot(2000);
  b.Fault(1999, FaultKind::kStoreEmptied, 0);
  EXPECT_VIOLATED(b, "");
}

}  // namespace
}  // namespace distlock::sim
