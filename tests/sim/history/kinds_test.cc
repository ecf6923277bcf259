// SPDX-License-Identifier: Apache-2.0
//
// The checkers' rules about readers, writers, permits and policies.
#include "history/violations.h"

namespace distlock::sim {
namespace {

const Terms kReader{.kind = HoldKind::kShared};

Terms Permits(uint32_t permits, uint32_t limit = 3) {
  return {.kind = HoldKind::kPermit, .permits = permits, .limit = limit};
}

// ann and bob hold at the same time, as they asked for it.
HistoryBuilder Together(const Terms& first, const Terms& second) {
  HistoryBuilder b;
  b.HoldsInStore(10, 50, b.Asks(0, "ann", first), 5);
  b.HoldsInStore(20, 60, b.Asks(1, "bob", second), 6);
  return b;
}

TEST(Kinds, ReadersShareAndWritersDoNot) {
  EXPECT_VIOLATED(Together(kReader, kReader), "");
  EXPECT_VIOLATED(Together(kReader, {}), "I1");
  EXPECT_VIOLATED(Together({}, kReader), "I1");
}

// ann writes, and goes on as a reader at `downgraded`; bob reads from 20 on.
HistoryBuilder GoesOnAsReader(int64_t downgraded) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.HoldsInStore(10, 50, ann, 5);
  b.Yields(12, ann);
  b.Downgraded(downgraded, ann);
  b.HoldsInStore(20, 60, b.Asks(1, "bob", kReader), 6);
  return b;
}

TEST(Kinds, AWriterThatGoesOnAsReaderSharesFromThenOn) {
  EXPECT_VIOLATED(GoesOnAsReader(15), "");
  EXPECT_VIOLATED(GoesOnAsReader(30), "I1");
  HistoryBuilder b = GoesOnAsReader(15);
  b.HoldsInStore(30, 40, b.Asks(2, "eve"), 7);
  EXPECT_VIOLATED(b, "I1");
}

TEST(Kinds, AWriterThatHasNotAskedForReadersCountsOnBeingAlone) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  b.HoldsInStore(10, 50, ann, 5);
  b.Downgraded(15, ann);
  EXPECT_VIOLATED(b, "I3");
  b.HoldsInStore(20, 60, b.Asks(1, "bob", kReader), 6);
  EXPECT_VIOLATED(b, "I1 I3");
  b.Yields(30, ann);
  EXPECT_VIOLATED(b, "I1 I3");
}

// An administrator takes it from ann at 20, who believes until 40; bob has it from `given` on.
HistoryBuilder TakenByForce(const Terms& terms, FreedHow how, int64_t given) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", terms);
  b.Took(9, ann, 5);
  b.Granted(10, ann, 5, 40);
  b.Forced(20, ann);
  b.Freed(given - 2, ann, how);
  b.HoldsInStore(given, given + 20, b.Asks(1, "bob"), 6);
  return b;
}

TEST(Kinds, WhatIsTakenByForceIsFreedWhenItsClientHasCeasedToBelieve) {
  EXPECT_VIOLATED(TakenByForce({}, FreedHow::kReleased, 42), "");
  EXPECT_VIOLATED(TakenByForce({}, FreedHow::kReleased, 30), "I1 I3");
  EXPECT_VIOLATED(TakenByForce({.detached = true}, FreedHow::kReleased, 30), "");
  EXPECT_VIOLATED(TakenByForce({}, FreedHow::kForced, 30), "");
  HistoryBuilder calm = TakenByForce({}, FreedHow::kForced, 30);
  calm.Calm();
  EXPECT_VIOLATED(calm, "I1");
}

// Where nobody observes the store. A repeated request has given the lease a greater token than its client knows.
TEST(Kinds, WhatIsTakenByForceUnderOneTokenIsTakenUnderTheLesserToo) {
  const auto taken = [](uint64_t token) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.detached = true});
    b.Granted(10, ann, 5, 40);
    b.Forced(20, ann, token);
    b.Holds(30, 50, b.Asks(1, "bob"), 7);
    return b;
  };
  EXPECT_VIOLATED(taken(6), "");
  EXPECT_VIOLATED(taken(4), "I1");
}

TEST(Kinds, PermitsAreNeverMoreThanTheLimit) {
  EXPECT_VIOLATED(Together(Permits(1), Permits(2)), "");
  EXPECT_VIOLATED(Together(Permits(2), Permits(2)), "I1");
  EXPECT_VIOLATED(Together(Permits(1), kReader), "I1");
}

// The store has given ann's permit, but she hears of it when bob's have been taken from him, and eve has one of them.
HistoryBuilder TakenBetween(bool taken) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", Permits(1));
  const int64_t bob = b.Asks(0, "bob", {.detached = true, .kind = HoldKind::kPermit, .permits = 2, .limit = 3});
  const int64_t eve = b.Asks(0, "eve", Permits(1));
  b.Took(10, ann, 5);
  b.Took(20, bob, 6);
  b.Granted(21, bob, 6, 900);
  if (taken) b.Forced(30, bob, 6);
  b.Freed(31, bob, taken ? FreedHow::kForced : FreedHow::kReleased);
  b.HoldsInStore(40, 200, eve, 7);
  b.Granted(50, ann, 5, 300);
  return b;
}

TEST(Kinds, PermitsThatWereTakenCountNoMore) {
  EXPECT_VIOLATED(TakenBetween(true), "");
  EXPECT_VIOLATED(TakenBetween(false), "I1 I3");
}

TEST(Kinds, WithoutTheStoreBeliefTells) {
  HistoryBuilder b;
  b.Holds(10, 50, b.Asks(0, "ann", Permits(2)), 5);
  b.Holds(20, 60, b.Asks(1, "bob", Permits(1)), 6);
  EXPECT_VIOLATED(b, "");
  b.Holds(30, 40, b.Asks(2, "eve", Permits(1)), 7);
  EXPECT_VIOLATED(b, "I1");
}

// ann and bob read, and eve waits to write until `taken`.
HistoryBuilder WriterWaits(int64_t taken) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann", kReader);
  const int64_t bob = b.Asks(1, "bob", kReader);
  const int64_t eve = b.Asks(2, "eve");
  b.HoldsInStore(10, 50, ann, 5);
  b.HoldsInStore(11, 400, bob, 6);
  b.Queued(20, eve, 1);
  b.HoldsInStore(taken, taken + 50, eve, 7);
  return b;
}

TEST(Kinds, AWriterIsNotOwedTheLockBeforeTheLastReaderHasGone) {
  EXPECT_VIOLATED(WriterWaits(402), "");
  EXPECT_VIOLATED(WriterWaits(600), "I5");
}

// A reader waits behind a writer that leaves at 100, beside a reader that stays.
HistoryBuilder WriterLeaves(int64_t taken) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann", kReader);
  const int64_t bob = b.Asks(1, "bob");
  const int64_t eve = b.Asks(2, "eve", kReader);
  b.HoldsInStore(10, 2000, ann, 5);
  b.Queued(20, bob, 1);
  b.Queued(30, eve, 2);
  b.GivesUp(99, bob);
  b.Unqueued(100, bob);
  b.HoldsInStore(taken, taken + 50, eve, 6);
  return b;
}

TEST(Kinds, WhoFitsWhenTheFirstHasGoneIsServedAtOnce) {
  EXPECT_VIOLATED(WriterLeaves(102), "");
  EXPECT_VIOLATED(WriterLeaves(400), "I5");
}

// bob waits since 20; eve comes at 90 and has it at once.
HistoryBuilder Overtakes(const Terms& bobs, const Terms& eves, int64_t at = 90) {
  HistoryBuilder b;
  b.Calm();
  const int64_t ann = b.Asks(0, "ann", kReader);
  const int64_t bob = b.Asks(1, "bob", bobs);
  const int64_t eve = b.Asks(at - 1, "eve", eves);
  b.HoldsInStore(10, 600, ann, 5);
  b.Queued(20, bob, 1);
  b.HoldsInStore(at, 400, eve, 6);
  b.HoldsInStore(602, 700, bob, 7);
  return b;
}

TEST(Kinds, NobodyPassesAWriterButThePreferred) {
  Terms preferred = kReader;
  preferred.preferred = true;
  EXPECT_VIOLATED(Overtakes({}, kReader), "I4");
  EXPECT_VIOLATED(Overtakes({}, preferred), "");
}

TEST(Kinds, AdaptiveNewcomersPassForAWhileOnly) {
  Terms reader = kReader;
  reader.adaptive = true;
  EXPECT_VIOLATED(Overtakes({.adaptive = true}, reader), "");
  EXPECT_VIOLATED(Overtakes({.adaptive = true}, reader, 200), "I4");
  EXPECT_VIOLATED(Overtakes({}, reader), "I4");
}

// Numbers begin anew when a queue has been empty.
TEST(Kinds, WhoHasLostItsPlaceIsANewcomerAgain) {
  for (const bool adaptive : {false, true}) {
    HistoryBuilder b;
    Terms reader = kReader;
    reader.adaptive = adaptive;
    const int64_t ann = b.Asks(0, "ann", kReader);
    const int64_t eve = b.Asks(1, "eve", reader);
    b.HoldsInStore(10, 600, ann, 5);
    b.Queued(20, eve, 7);
    b.Unqueued(30, eve);
    const int64_t bob = b.Asks(79, "bob", {.adaptive = true});
    b.Queued(80, bob, 1);
    b.HoldsInStore(90, 400, eve, 6);
    b.HoldsInStore(602, 700, bob, 7);
    EXPECT_VIOLATED(b, adaptive ? "" : "I4");
  }
}

TEST(Kinds, APreferredOneIsQueuedInFront) {
  for (const bool preferred : {false, true}) {
    HistoryBuilder b;
    b.Calm();
    const int64_t ann = b.Asks(0, "ann");
    const int64_t bob = b.Asks(1, "bob", kReader);
    const int64_t eve = b.Asks(2, "eve", {.preferred = preferred});
    b.HoldsInStore(10, 50, ann, 5);
    b.Queued(20, bob, 1);
    b.Queued(21, eve, -100);
    b.HoldsInStore(52, 90, eve, 6);
    b.HoldsInStore(92, 99, bob, 7);
    EXPECT_VIOLATED(b, preferred ? "" : "I4");
  }
}

TEST(Kinds, ADeadReadersDelayKeepsWritersOutAndNoReaders) {
  for (const bool reads : {false, true}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.lock_delay = 1000, .kind = HoldKind::kShared});
    const int64_t bob = b.Asks(1, "bob", reads ? kReader : Terms{});
    b.Took(9, ann, 5);
    b.Granted(10, ann, 5, 500);
    b.Fault(40, FaultKind::kClientKilled, 0, "ann");
    b.Ended(40, ann, EndedWhy::kClientDied);
    b.Freed(60, ann);
    b.HoldsInStore(100, 200, bob, 6);
    EXPECT_VIOLATED(b, reads ? "" : "I8");
  }
}

}  // namespace
}  // namespace distlock::sim
