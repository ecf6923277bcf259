// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

// ---- I4 by the store's numbers ----

// ann holds; bob and eve queue, and are served one after the other.
HistoryBuilder Served(int64_t bobs_number, int64_t eves_number) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(2, "eve");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, bobs_number);
  b.Queued(21, eve, eves_number);
  b.HoldsInStore(52, 90, bob, 6);
  b.HoldsInStore(92, 130, eve, 7);
  return b;
}

TEST(Fifo, TheFirstIsServedFirst) {
  EXPECT_VIOLATED(Served(1, 2), "");
  EXPECT_VIOLATED(Served(2, 1), "I4");
}

TEST(Fifo, NobodyIsQueuedBeforeOneWhoWaits) {
  for (const int64_t eves_number : {0, 2}) {
    HistoryBuilder b;
    b.Calm();
    b.HoldsInStore(10, 50, b.Asks(0, "ann"), 5);
    const int64_t bob = b.Asks(1, "bob");
    const int64_t eve = b.Asks(2, "eve");
    b.Queued(20, bob, 1);
    b.Queued(21, eve, eves_number);
    b.GivesUp(30, bob);
    b.Unqueued(31, bob);
    b.HoldsInStore(52, 90, eve, 6);
    EXPECT_VIOLATED(b, eves_number == 2 ? "" : "I4");
  }
}

TEST(Fifo, UnlessTheStoreForgotHim) {
  HistoryBuilder b;
  b.HoldsInStore(10, 50, b.Asks(0, "ann"), 5);
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(2, "eve");
  b.Queued(20, bob, 1);
  b.Forgot(25);
  b.Queued(26, eve, 1);
  b.HoldsInStore(52, 90, eve, 6);
  b.HoldsInStore(92, 130, bob, 7);
  EXPECT_VIOLATED(b, "");
}

// bob is number 2, has no place for a moment, and another one then.
TEST(Fifo, ARequestThatGoesOnElsewhereKeepsItsPlace) {
  for (const int64_t again : {2, 3}) {
    for (const FaultKind fault : {FaultKind::kBrokerDrained, FaultKind::kBrokerKilled}) {
      for (const bool keeps : {true, false}) {
        HistoryBuilder b;
        b.Fault(15, fault, 10, "broker 1");
        b.Fault(15, FaultKind::kScriptsFlushed, 0, "broker 2");
        b.HoldsInStore(10, 50, b.Asks(0, "ann"), 5);
        const int64_t bob = b.Asks(1, "bob", {.keeps_place = keeps});
        b.Queued(20, bob, 2);
        b.Unqueued(30, bob);
        b.Queued(31, bob, again);
        b.HoldsInStore(52, 90, bob, 6);
        const bool lost = keeps && again > 2 && fault == FaultKind::kBrokerDrained;
        EXPECT_VIOLATED(b, lost ? "I4" : "");
      }
    }
  }
}

TEST(Fifo, OneTryIsNotQueued) {
  for (const int64_t max_wait : {0, 100}) {
    HistoryBuilder b;
    b.Calm();
    b.HoldsInStore(10, 50, b.Asks(0, "ann"), 5);
    const int64_t bob = b.Asks(1, "bob", {.max_wait = max_wait});
    b.Queued(20, bob, 1);
    b.Unqueued(21, bob);
    b.Refused(22, bob);
    EXPECT_VIOLATED(b, max_wait == 0 ? "I4" : "");
  }
}

TEST(Fifo, NobodyComesBetween) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.HoldsInStore(52, 90, b.Asks(45, "eve", {.max_wait = 0}), 6);
  b.HoldsInStore(92, 130, bob, 7);
  EXPECT_VIOLATED(b, "I4");
}

TEST(Fifo, WhoLeftIsNotPassedOver) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(2, "eve");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.Queued(21, eve, 2);
  b.GivesUp(30, bob);
  b.Unqueued(31, bob);
  b.HoldsInStore(52, 90, eve, 6);
  EXPECT_VIOLATED(b, "");
}

HistoryBuilder PassedOver(bool thrown_out, int64_t at = 51) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(2, "eve");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.Queued(21, eve, 2);
  b.HoldsInStore(52, 90, eve, 6);
  if (thrown_out) b.Unqueued(at, bob);
  return b;
}

TEST(Fifo, WithFaultsTheDeadArePassedOver) {
  EXPECT_VIOLATED(PassedOver(false), "I4");
  EXPECT_VIOLATED(PassedOver(true), "");
  EXPECT_VIOLATED(PassedOver(true, 60), "I4");
}

// bob's stream breaks; he asks again through another while his old place is still there, and is served from that.
TEST(Fifo, AnOldPlaceOfTheSameLeaseCounts) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(2, "eve");
  b.HoldsInStore(10, 50, ann, 5);
  b.Queued(20, bob, 1);
  b.Queued(21, eve, 2);
  b.Queued(22, bob, 3);
  b.HoldsInStore(52, 90, bob, 6);
  b.HoldsInStore(92, 130, eve, 7);
  EXPECT_VIOLATED(b, "");
}

TEST(Fifo, InCalmTimesNobodyIsDead) {
  HistoryBuilder b = PassedOver(true);
  b.Calm();
  EXPECT_VIOLATED(b, "I4");
}

TEST(Fifo, ABrokerThatCannotHearIsPassedOver) {
  HistoryBuilder b = PassedOver(false);
  b.Fault(30, FaultKind::kChannelLost, 10, "broker 1");
  EXPECT_VIOLATED(b, "");
}

TEST(Fifo, FaultsOfClientsMakeNoBrokerDeaf) {
  HistoryBuilder b = PassedOver(false);
  b.Fault(30, FaultKind::kClientKilled, 10, "eve");
  EXPECT_VIOLATED(b, "I4");
}

TEST(Fifo, NorDoFaultsThatAreLongOver) {
  HistoryBuilder b;
  b.Fault(0, FaultKind::kChannelLost, 10, "broker 1");
  const int64_t ann = b.Asks(20000, "ann");
  const int64_t bob = b.Asks(20001, "bob");
  const int64_t eve = b.Asks(20002, "eve");
  b.HoldsInStore(20010, 20050, ann, 5);
  b.Queued(20020, bob, 1);
  b.Queued(20021, eve, 2);
  b.HoldsInStore(20052, 20090, eve, 6);
  EXPECT_VIOLATED(b, "I4");
}

// ---- I4 by what clients see ----

HistoryBuilder Overtaken(int64_t second_asks) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(second_asks, "eve");
  b.Holds(2, 500, ann, 5);
  b.Holds(503, 600, eve, 6);
  b.Holds(603, 700, bob, 7);
  return b;
}

TEST(Fairness, NobodyIsOvertakenByOneWhoAskedMuchLater) {
  EXPECT_VIOLATED(Overtaken(300), "I4");
  EXPECT_VIOLATED(Overtaken(50), "");
}

TEST(Fairness, WhileSomethingIsBrokenPlacesMayBeLost) {
  HistoryBuilder b = Overtaken(300);
  b.Raw().calm = false;
  EXPECT_VIOLATED(b, "");
  b.Raw().slow_ns = Ms(100);
  EXPECT_VIOLATED(b, "I4");
  b.Fault(200, FaultKind::kBrokerKilled, 10);
  EXPECT_VIOLATED(b, "");
}

TEST(Fairness, WhoWaitsForATimeOnlyMayBePassedOverAtItsEnd) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(1, "bob", {.max_wait = 501});
  const int64_t eve = b.Asks(300, "eve");
  b.Holds(2, 500, ann, 5);
  b.Holds(503, 600, eve, 6);
  b.Refused(504, bob, core::RefusalReason::kWaitTimeout);
  EXPECT_VIOLATED(b, "");
}

}  // namespace
}  // namespace distlock::sim
