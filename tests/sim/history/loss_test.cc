// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

// ---- I13 ----

HistoryBuilder Losing(core::LostReason reason, const Terms& terms = {}) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", terms);
  b.Granted(10, ann, 5, 9000);
  b.Lost(2500, ann, reason);
  return b;
}

TEST(Losses, NeedAFault) {
  EXPECT_VIOLATED(Losing(core::LostReason::kExpired), "I13");
  EXPECT_VIOLATED(Losing(core::LostReason::kTaken), "I13");
  EXPECT_VIOLATED(Losing(core::LostReason::kForced), "I13");
  EXPECT_VIOLATED(Losing(core::LostReason::kDrained), "I13");
  EXPECT_VIOLATED(Losing(core::LostReason::kMaxHold), "I13");
}

TEST(Losses, ByDeadlineAndByABrokenStreamNeedOneToo) {
  for (const EndedWhy why : {EndedWhy::kDeadline, EndedWhy::kStreamBroke}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann");
    b.Granted(10, ann, 5, 2500);
    b.Ended(2500, ann, why);
    EXPECT_VIOLATED(b, "I13");
    b.Fault(1000, FaultKind::kLinkReset);
    EXPECT_VIOLATED(b, "");
  }
}

TEST(Losses, AClientThatMovesFindsWhatWasTakenByForceGone) {
  for (const bool forced : {false, true}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann");
    b.Granted(10, ann, 5, 2500);
    if (forced) b.Forced(1000, ann, 5);
    b.Ended(2400, ann, EndedWhy::kStreamBroke);
    EXPECT_VIOLATED(b, forced ? "" : "I13");
  }
}

TEST(Losses, AForceThatMostServersHaveDoneLeavesRenewalsUnanswered) {
  for (const bool forced : {false, true}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.detached = true});
    b.Granted(10, ann, 5, 1500);
    if (forced) b.Forced(700, ann, 5);
    b.Ended(1500, ann, EndedWhy::kDeadline);
    EXPECT_VIOLATED(b, forced ? "" : "I13");
  }
}

TEST(Losses, VotesOfAReleasedDetachedLeaseExplainOne) {
  for (const bool detached : {false, true}) {
    HistoryBuilder b;
    b.Raw().stray_votes = true;
    const int64_t bob = b.Asks(0, "bob", {.detached = detached});
    b.Holds(1, 5, bob, 4);
    const int64_t ann = b.Asks(6, "ann");
    b.Granted(10, ann, 5, 2500);
    b.Ended(2500, ann, EndedWhy::kDeadline);
    EXPECT_VIOLATED(b, detached ? "" : "I13");
    b.Raw().stray_votes = false;
    EXPECT_VIOLATED(b, "I13");
  }
}

TEST(Losses, MaxHoldIsItsOwnReason) {
  EXPECT_VIOLATED(Losing(core::LostReason::kMaxHold, {.max_hold = 2490}), "");
  EXPECT_VIOLATED(Losing(core::LostReason::kMaxHold, {.max_hold = 4000}), "I13");
  // By 1 % for the clock, a tenth of the validity for the way, and the slack.
  EXPECT_VIOLATED(Losing(core::LostReason::kMaxHold, {.max_hold = 2490 + 24 + 100 + 490}), "");
  EXPECT_VIOLATED(Losing(core::LostReason::kMaxHold, {.max_hold = 2490 + 24 + 100 + 600}), "I13");
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann", {.max_hold = 2490});
  b.Granted(10, ann, 5, 2480);
  b.Ended(2480, ann, EndedWhy::kDeadline);
  EXPECT_VIOLATED(b, "");
}

// A lock that was taken first may have been held for long while the request waited for the others.
TEST(Losses, MaxHoldOfSeveralCountsFromWhenAllAreGranted) {
  for (const bool together : {false, true}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann", {.max_hold = 2480, .together = together});
    b.Took(10, ann, 5);
    b.Granted(1500, ann, 5, 2490);
    b.Ended(2490, ann, EndedWhy::kDeadline);
    b.Freed(2600, ann, FreedHow::kReleased);
    // max_hold of a single lock counts from the store's grant: the loss is correct, only the client received the grant
    // late.
    EXPECT_VIOLATED(b, together ? "I13" : "I5");
  }
}

// At a quorum it may leave a vote.
TEST(Losses, AWaitBehindOneThatWasReleasedThroughAnotherBrokerEndsWithItsTtl) {
  for (const bool elsewhere : {false, true}) {
    for (const int64_t granted : {3'000, 7'000}) {
      HistoryBuilder b;
      b.Raw().stray_votes = true;
      const int64_t ann = b.Asks(0, "ann", {.ttl = 5'000});
      b.Raw().leases.back().released_elsewhere = elsewhere;
      b.Granted(10, ann, 5, 1'500);
      b.Ended(1'000, ann, EndedWhy::kReleasing);
      b.Released(1'010, ann);
      const int64_t bob = b.Asks(1'000, "bob");
      b.Granted(granted, bob, 6, granted + 1'000);
      b.Ended(granted + 500, bob, EndedWhy::kReleasing);
      EXPECT_VIOLATED(b, elsewhere && granted < 6'000 ? "" : "I5");
    }
  }
}

// The whole table: which fault explains which loss.
TEST(Losses, AreExplainedByWhatCostsThem) {
  struct Row {
    FaultKind kind;
    bool expired;
    bool taken;
    bool drained;
  };
  const Row rows[] = {
      {FaultKind::kClientKilled, false, false, false},  // another client's
      {FaultKind::kClientPaused, false, false, false},   {FaultKind::kClientClock, false, false, false},
      {FaultKind::kBrokerKilled, true, false, false},    {FaultKind::kBrokerPaused, true, false, false},
      {FaultKind::kBrokerDrained, true, false, true},    {FaultKind::kBrokerClock, true, false, false},
      {FaultKind::kStorePaused, true, false, false},     {FaultKind::kStoreRestarted, true, true, false},
      {FaultKind::kStoreEmptied, true, true, false},     {FaultKind::kKeyDeleted, true, true, false},
      {FaultKind::kStoreClock, true, true, false},       {FaultKind::kStoreFull, false, false, false},
      {FaultKind::kStoreRefuses, true, false, false},    {FaultKind::kFailover, true, true, false},
      {FaultKind::kScriptsFlushed, false, false, false}, {FaultKind::kLinkReset, true, false, false},
      {FaultKind::kLinkSlow, true, false, false},        {FaultKind::kLinkSilent, true, false, false},
      {FaultKind::kLinkOneWay, true, false, false},      {FaultKind::kChannelLost, false, false, false},
      {FaultKind::kNoticesLost, false, false, false},    {FaultKind::kPromoted, true, true, false},
  };
  static_assert(std::size(rows) == static_cast<size_t>(FaultKind::kCount));
  for (const Row& row : rows) {
    SCOPED_TRACE(static_cast<int>(row.kind));
    const std::pair<core::LostReason, bool> columns[] = {{core::LostReason::kExpired, row.expired},
                                                         {core::LostReason::kTaken, row.taken},
                                                         {core::LostReason::kDrained, row.drained},
                                                         {core::LostReason::kForced, false},
                                                         {core::LostReason::kMaxHold, false}};
    for (const auto& [reason, explained] : columns) {
      HistoryBuilder b = Losing(reason);
      b.Fault(1000, row.kind, 0, "somebody else");
      EXPECT_VIOLATED(b, explained ? "" : "I13");
    }
  }
}

TEST(Losses, AClientsOwnPauseExplainsItsOwn) {
  HistoryBuilder b = Losing(core::LostReason::kExpired);
  b.Fault(1000, FaultKind::kClientPaused, 1000, "ann");
  EXPECT_VIOLATED(b, "");
}

TEST(Losses, AFaultExplainsWhatFollowsWithinATtl) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(10000, "ann");
  b.Granted(10010, ann, 5, 19000);
  b.Lost(13000, ann, core::LostReason::kExpired);
  HistoryBuilder late = b;
  b.Fault(9000, FaultKind::kLinkSilent, 1000);
  EXPECT_VIOLATED(b, "");
  late.Fault(8000, FaultKind::kLinkSilent, 1000);
  EXPECT_VIOLATED(late, "I13");
}

TEST(Losses, AGrantThatIsTooLateMayOweThatToTheWayOfItsRequest) {
  HistoryBuilder b;
  b.Fault(0, FaultKind::kLinkSlow, 2000);
  const int64_t ann = b.Asks(500, "ann", {.detached = true});
  const int64_t bob = b.Asks(500, "bob", {.lock = "other"});
  b.Granted(8000, ann, 5, 7000);
  b.Ended(8000, ann, EndedWhy::kDeadline);
  EXPECT_VIOLATED(b, "");
  b.Granted(8000, bob, 5, 8500);
  b.Ended(8500, bob, EndedWhy::kDeadline);
  EXPECT_VIOLATED(b, "I13");
}

TEST(Losses, SoMayADetachedOneThatIsSoonOver) {
  for (const int64_t believed : {10, 1200}) {
    HistoryBuilder b;
    b.Fault(0, FaultKind::kLinkSlow, 2000);
    const int64_t ann = b.Asks(500, "ann", {.detached = true});
    b.Granted(8000, ann, 5, 8000 + believed);
    b.Ended(8000 + believed, ann, EndedWhy::kDeadline);
    EXPECT_VIOLATED(b, believed == 10 ? "" : "I13");
  }
}

TEST(Losses, NoFaultExplainsWhatWasBeforeIt) {
  HistoryBuilder b = Losing(core::LostReason::kExpired);
  b.Fault(2501, FaultKind::kLinkSilent, 1000);
  EXPECT_VIOLATED(b, "I13");
}

TEST(Losses, AKeyOfAnotherLockExplainsNothing) {
  HistoryBuilder b = Losing(core::LostReason::kTaken);
  b.Fault(1000, FaultKind::kKeyDeleted, 0, "", "other");
  EXPECT_VIOLATED(b, "I13");
  b.Fault(1000, FaultKind::kKeyDeleted, 0, "", "k");
  EXPECT_VIOLATED(b, "");
  HistoryBuilder reverse;
  reverse.Holds(1, 2, reverse.Asks(0, "bob"), 1);
  const int64_t ann = reverse.Asks(0, "ann", {.lock = "other"});
  reverse.Granted(10, ann, 5, 9000);
  reverse.Lost(2500, ann, core::LostReason::kTaken);
  reverse.Fault(1000, FaultKind::kKeyDeleted, 0, "", "k");
  EXPECT_VIOLATED(reverse, "I13");
}

TEST(Losses, AStoreThatForgotExplainsWhatIsTaken) {
  for (const int64_t at : {1000, 2501}) {
    HistoryBuilder b = Losing(core::LostReason::kTaken);
    b.Forgot(at);
    EXPECT_VIOLATED(b, at == 1000 ? "" : "I13");
  }
  HistoryBuilder b;
  b.Forgot(5);
  const int64_t ann = b.Asks(6, "ann");
  b.Granted(10, ann, 5, 9000);
  b.Lost(2500, ann, core::LostReason::kTaken);
  EXPECT_VIOLATED(b, "I13");
}

}  // namespace
}  // namespace distlock::sim
