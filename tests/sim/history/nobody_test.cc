// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

// ann gives up at 1000, as the connection of her broker breaks; what that had asked for is granted at `took`, free at
// `freed`.
HistoryBuilder TakenForNobody(int64_t took, int64_t freed,
                              const Terms& terms = {.ttl = 20000, .freed_by_promise = true}) {
  HistoryBuilder b;
  b.Raw().give_back_ns = Ms(3000);
  b.Raw().actors.push_back({Actor::Kind::kBroker, "broker"});
  const int64_t ann = b.Asks(900, "ann", terms);
  b.GivesUp(1000, ann);
  b.Fault(1000, FaultKind::kLinkReset, 500, "broker");
  b.Took(took, ann, 5);
  b.Freed(freed, ann);
  return b;
}

TEST(TakenForNobody, IsGivenBackAtOnce) {
  EXPECT_VIOLATED(TakenForNobody(950, 5400), "");
  EXPECT_VIOLATED(TakenForNobody(950, 5600), "I7");
}

TEST(TakenForNobody, AlsoWhenItComesLate) {
  EXPECT_VIOLATED(TakenForNobody(2000, 5900), "");
  EXPECT_VIOLATED(TakenForNobody(2000, 6100), "I7");
}

TEST(TakenForNobody, AfterItsLockDelay) {
  const Terms terms{.ttl = 20000, .lock_delay = 3000, .freed_by_promise = true};
  EXPECT_VIOLATED(TakenForNobody(950, 8400, terms), "");
  EXPECT_VIOLATED(TakenForNobody(950, 8600, terms), "I7");
}

TEST(TakenForNobody, IsLeftToItsTtlWhereThatWasAskedFor) {
  EXPECT_VIOLATED(TakenForNobody(950, 20940, {.ttl = 20000}), "");
  EXPECT_VIOLATED(TakenForNobody(950, 20940, {.ttl = 20000, .detached = true}), "");
}

TEST(TakenForNobody, AlsoWhenMoreThanConnectionsBroke) {
  for (const FaultKind kind :
       {FaultKind::kBrokerKilled, FaultKind::kStorePaused, FaultKind::kLinkSlow, FaultKind::kLinkSilent}) {
    HistoryBuilder b = TakenForNobody(950, 20940);
    b.Fault(980, kind, 10, "broker");
    EXPECT_VIOLATED(b, "");
  }
}

TEST(TakenForNobody, WaitsForTheConnectionsThatMatter) {
  HistoryBuilder b = TakenForNobody(950, 7400);
  EXPECT_VIOLATED(b, "I7");
  b.Fault(2000, FaultKind::kLinkReset, 1500, "bob");
  EXPECT_VIOLATED(b, "I7");
  b.Fault(2000, FaultKind::kLinkReset, 1500, "ann");
  EXPECT_VIOLATED(b, "");
}

// ann believes until 1500; `fault` hits her from 700 to 4700, and she leaves at `ended`, if that is not 0. The store
// lets go at `freed`.
HistoryBuilder HitAt700(FaultKind fault, bool by_heartbeat, int64_t ended, int64_t freed) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.ttl = 20000, .freed_by_promise = true, .by_heartbeat = by_heartbeat});
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 1500);
  b.Fault(700, fault, 4000, "ann");
  if (ended != 0) b.Ended(ended, ann, EndedWhy::kDeadline);
  b.Freed(freed, ann);
  return b;
}

HistoryBuilder StoodStill(bool by_heartbeat, int64_t freed) {
  return HitAt700(FaultKind::kClientPaused, by_heartbeat, 0, freed);
}

TEST(Recovery, FromAClientThatStandsStillTakesAValidity) {
  EXPECT_VIOLATED(StoodStill(true, 2100), "");
  EXPECT_VIOLATED(StoodStill(true, 2300), "I7");
  EXPECT_VIOLATED(StoodStill(false, 2300), "");
}

HistoryBuilder LeftOnABrokenLink(bool by_heartbeat, int64_t freed) {
  return HitAt700(FaultKind::kLinkReset, by_heartbeat, 1500, freed);
}

TEST(Recovery, FromABrokenLinkWaitsUntilTheBrokerOfAHoldHearsOfIt) {
  EXPECT_VIOLATED(LeftOnABrokenLink(true, 2900), "");
  EXPECT_VIOLATED(LeftOnABrokenLink(true, 3500), "I7");
  EXPECT_VIOLATED(LeftOnABrokenLink(false, 6100), "");
  EXPECT_VIOLATED(LeftOnABrokenLink(false, 6800), "I7");
}

}  // namespace
}  // namespace distlock::sim
