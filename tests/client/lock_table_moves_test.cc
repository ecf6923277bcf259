// SPDX-License-Identifier: Apache-2.0
//
// The lock table: leases that move from a broker that drains to the next one.
#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

class MovesTest : public LockTableTest {
 protected:
  MovesTest() : LockTableTest(2) {}

  LeasePtr Held(const std::string& key, LockOptions options = {}) {
    const LeasePtr lease = Acquire(key, std::nullopt, std::move(options));
    Grant(lease);
    Drain();
    return lease;
  }

  // The former broker drains; a session is opened at the next one. Returns what that one is sent.
  Strings DrainAndOpen(const std::string& opened = kOpened) {
    Say("draining { time_left { seconds: 30 } }", kFormer);
    EXPECT_EQ(table_.present(), kNext);
    Start();
    Say(opened, kNext);
    return Drain(kNext);
  }

  bool IsHeld(const LeasePtr& lease) {
    table_.Notice(lease, now_, fx_);
    Settle();
    return lease->phase == Lease::Phase::kHeld;
  }

  void Release(const LeasePtr& lease) {
    table_.Release(lease, [this](ReleaseOutcome outcome) { released_.push_back(outcome); }, now_, fx_);
    Settle();
  }

  std::vector<ReleaseOutcome> released_;
};

TEST_F(MovesTest, ADrainingBrokerIsLeftWithAllThatItHolds) {
  const LeasePtr lease = Held("a");
  now_ = 1000 * kMs;
  EXPECT_EQ(DrainAndOpen(), (Strings{"open", "adopt 4: lease-2 as request 1"}));
  EXPECT_EQ(Drain(kFormer), Strings{}) << "the former promise counts until the answer";
  EXPECT_EQ(lease->deadline_ns, kV);
  now_ = 1100 * kMs;
  SayGranted(4, kNext);
  EXPECT_EQ(lease->deadline_ns, 4000 * kMs) << "from the next session's Open";
  EXPECT_EQ(lease->token, 7);
  EXPECT_EQ(lease->names.load()->lease_id, "lease-4");
  EXPECT_EQ(lease->granted.lease_id, "lease-2") << "a guard may still refer to it";
  EXPECT_EQ(Drain(kFormer), Strings{"goodbye"});
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  EXPECT_EQ(answers_, Strings{"granted"});
  EXPECT_TRUE(drains_.empty()) << "the program need not hear of it";
  Break(kFormer);
  EXPECT_TRUE(IsHeld(lease));
  Release(lease);
  EXPECT_EQ(Drain(kNext), Strings{"release 4"});
}

TEST_F(MovesTest, ANewPromiseReplacesTheFormerAlsoWhenItIsShorter) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  SayGranted(4, kNext, 0, 500);
  EXPECT_EQ(lease->deadline_ns, 500 * kMs);
  now_ = 500 * kMs;
  EXPECT_FALSE(IsHeld(lease));
  EXPECT_EQ(Drain(kNext), (Strings{"heartbeat 1", "lapsed 4"}));
}

TEST_F(MovesTest, AMaxHoldThatEndsAnAdoptedLeaseIsReleasedToo) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  SayGranted(4, kNext);
  Drain(kNext);
  Say("id: 4 lost { reason: LOST_REASON_MAX_HOLD }", kNext);
  EXPECT_EQ(lease->cause, EndCause::kMaxHold);
  EXPECT_EQ(Drain(kNext), Strings{"lapsed 4"}) << "its broker would keep it for the former promise";
}

TEST_F(MovesTest, AcksOfEachSessionSpeakForItsOwnLeases) {
  const LeasePtr moved = Held("a");
  const LeasePtr left = Held("b");
  DrainAndOpen();
  SayGranted(5, kNext);
  TickAt(1000 * kMs);
  Drain(kFormer);
  Drain(kNext);
  now_ = 1100 * kMs;
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }", kFormer);
  EXPECT_EQ(left->deadline_ns, 4000 * kMs);
  EXPECT_EQ(moved->deadline_ns, kV);
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } limits { acquire_id: 3 valid_for { seconds: 1 } } }", kNext);
  EXPECT_EQ(left->deadline_ns, 4000 * kMs) << "that session does not hold it";
  EXPECT_EQ(moved->deadline_ns, 4000 * kMs);
}

TEST_F(MovesTest, AnAnswerThatComesAfterTheFormerPromiseIsTooLate) {
  const LeasePtr lease = Held("a");
  const std::stop_token stop = table_.StopToken(*lease);
  DrainAndOpen();
  now_ = kV;
  SayGranted(4, kNext, 0, 9000);
  EXPECT_EQ(lease->cause, EndCause::kLapsed);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(Drain(kNext).back(), "lapsed 4");
  SayGranted(4, kNext, 0, 9000);
  EXPECT_EQ(lease->phase, Lease::Phase::kEnded);
}

TEST_F(MovesTest, APromiseThatEndsBeforeTheAnswerIsReleasedAtBoth) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  TickAt(kV);
  EXPECT_EQ(lease->cause, EndCause::kLapsed);
  const Strings former = Drain(kFormer);
  EXPECT_NE(std::find(former.begin(), former.end(), "lapsed 2"), former.end());
  const Strings next = Drain(kNext);
  EXPECT_NE(std::find(next.begin(), next.end(), "lapsed 4"), next.end());
}

TEST_F(MovesTest, MovedIsNoLossOfALeaseThatMoves) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Say("id: 2 lost { reason: LOST_REASON_MOVED }", kFormer);
  EXPECT_TRUE(IsHeld(lease));
  TickAt(1000 * kMs);
  Drain(kFormer);
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }", kFormer);
  EXPECT_EQ(lease->deadline_ns, kV) << "the former session does not speak for it any more";
  SayGranted(4, kNext);
  Say("id: 2 lost { reason: LOST_REASON_MOVED }", kFormer);
  EXPECT_TRUE(IsHeld(lease));
}

TEST_F(MovesTest, MovedByAnybodyElseIsALoss) {
  const LeasePtr lease = Held("a");
  Say("id: 2 lost { reason: LOST_REASON_MOVED }", kFormer);
  EXPECT_EQ(lease->cause, EndCause::kTaken);
}

TEST_F(MovesTest, OtherLossesAreFinalAndGivenBackAtTheNextBroker) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Say("id: 2 lost { reason: LOST_REASON_FORCED }", kFormer);
  EXPECT_EQ(lease->cause, EndCause::kForced);
  EXPECT_EQ(Drain(kNext), Strings{"lapsed 4"});
  SayGranted(4, kNext);
  EXPECT_EQ(lease->phase, Lease::Phase::kEnded);
}

TEST_F(MovesTest, TheEndOfTheFormerSessionDoesNotEndWhatIsUnderWay) {
  const LeasePtr lease = Held("a");
  const LeasePtr drained = Held("b");
  const LeasePtr at_once = Held("c", {.on_disconnect = OnDisconnect::kRelease});
  DrainAndOpen();
  Say("id: 3 lost { reason: LOST_REASON_DRAINED }", kFormer);
  Break(kFormer);
  EXPECT_TRUE(IsHeld(lease));
  EXPECT_TRUE(lease->at_risk);
  EXPECT_TRUE(IsHeld(drained));
  EXPECT_EQ(at_once->cause, EndCause::kDisconnected) << "its broker frees it at once";
  EXPECT_EQ(Drain(kNext), Strings{"lapsed 8"});
  SayGranted(6, kNext);
  SayGranted(7, kNext);
  EXPECT_FALSE(lease->at_risk);
  EXPECT_TRUE(IsHeld(drained));
}

TEST_F(MovesTest, NotHolderIsALoss) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Say("id: 4 refused { reason: REFUSAL_REASON_NOT_HOLDER message: 'gone' }", kNext);
  EXPECT_EQ(lease->cause, EndCause::kTaken);
  EXPECT_EQ(lease->end_message, "it could not be taken over: gone");
  EXPECT_EQ(Drain(kFormer), Strings{"goodbye"}) << "there is nothing to release";
}

TEST_F(MovesTest, ATemporaryRefusalIsRepeatedUnderTheSameRequestWhileBeliefLasts) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Say("id: 4 refused { reason: REFUSAL_REASON_STORE_UNAVAILABLE }", kNext);
  EXPECT_EQ(table_.wake_ns(), 100 * kMs);
  TickAt(100 * kMs);
  EXPECT_EQ(Drain(kNext), Strings{"adopt 5: lease-2 as request 1"});
  Say("id: 5 refused { reason: REFUSAL_REASON_QUORUM_NOT_REACHED }", kNext);
  TickAt(kV);
  EXPECT_EQ(lease->phase, Lease::Phase::kEnded);
  for (const std::string& command : Drain(kNext)) EXPECT_EQ(command.find("adopt"), std::string::npos) << command;
}

TEST_F(MovesTest, WhatCannotBeAdoptedStays) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  now_ = 1000 * kMs;
  Say("id: 4 refused { reason: REFUSAL_REASON_NOT_SUPPORTED }", kNext);
  EXPECT_TRUE(IsHeld(lease));
  EXPECT_EQ(drains_, std::vector<int64_t>{29'000 * kMs}) << "now the program must hear of the drain";
  EXPECT_EQ(Drain(kFormer), (Strings{})) << "no goodbye";
  Say("id: 2 lost { reason: LOST_REASON_DRAINED }", kFormer);
  EXPECT_EQ(lease->cause, EndCause::kDrained);
}

TEST_F(MovesTest, ABrokerThatCannotAdoptGetsNewAcquiresOnly) {
  const LeasePtr lease = Held("a");
  EXPECT_EQ(DrainAndOpen("opened { validity { seconds: 3 } }"), Strings{"open"});
  EXPECT_EQ(drains_.size(), 1u);
  EXPECT_TRUE(IsHeld(lease));
  Acquire("b");
  EXPECT_EQ(Drain(kNext), Strings{"acquire 4"});
}

TEST_F(MovesTest, TheNextBrokerBreaksAndTheOneAfterItIsAskedTheSame) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Break(kNext);
  EXPECT_TRUE(IsHeld(lease));
  EXPECT_EQ(table_.present(), kNext);
  Start();
  Say(kOpened, kNext);
  EXPECT_EQ(Drain(kNext), (Strings{"open", "adopt 6: lease-2 as request 1"}));
  SayGranted(6, kNext);
  EXPECT_EQ(Drain(kFormer), Strings{"goodbye"});
  EXPECT_TRUE(IsHeld(lease));
}

TEST_F(MovesTest, TheNextBrokerDrainsAsWell) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Say("id: 4 refused { reason: REFUSAL_REASON_DRAINING }", kNext);
  EXPECT_EQ(table_.present(), kNext) << "the former session still has the lease";
  Break(kFormer);
  EXPECT_EQ(table_.present(), kFormer);
  EXPECT_TRUE(IsHeld(lease));
  Start();
  Say(kOpened, kFormer);
  EXPECT_EQ(Drain(kFormer), (Strings{"open", "adopt 6: lease-2 as request 1"}));
  SayGranted(6, kFormer);
  EXPECT_EQ(Drain(kNext), Strings{"goodbye"});
  EXPECT_TRUE(IsHeld(lease));
}

TEST_F(MovesTest, AReleaseThatCrossesTheMoveIsSaidToBoth) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Release(lease);
  EXPECT_EQ(lease->cause, EndCause::kReleased);
  EXPECT_EQ(Drain(kFormer), Strings{"release 2"});
  EXPECT_EQ(Drain(kNext), Strings{"release 4"});
  SayGranted(4, kNext);
  EXPECT_EQ(lease->phase, Lease::Phase::kEnded);
  Say("id: 5 released { outcome: RELEASE_OUTCOME_RELEASED }", kFormer);
  EXPECT_TRUE(released_.empty()) << "until both have answered";
  Say("id: 6 released { outcome: RELEASE_OUTCOME_ALREADY_GONE }", kNext);
  EXPECT_EQ(released_, std::vector{ReleaseOutcome::kReleased});
  EXPECT_EQ(Drain(kFormer), Strings{"goodbye"});
}

TEST_F(MovesTest, TheNextBrokerMayAnswerTheReleaseFirst) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Release(lease);
  Say("id: 6 released { outcome: RELEASE_OUTCOME_ALREADY_GONE }", kNext);
  EXPECT_TRUE(released_.empty());
  Say("id: 5 released { outcome: RELEASE_OUTCOME_RELEASED }", kFormer);
  EXPECT_EQ(released_, std::vector{ReleaseOutcome::kReleased});
}

TEST_F(MovesTest, AReleaseThatOnlyOneSessionCanAnswer) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Release(lease);
  Break(kFormer);
  Say("id: 6 released { outcome: RELEASE_OUTCOME_RELEASED }", kNext);
  EXPECT_EQ(released_, std::vector{ReleaseOutcome::kReleased});
  const LeasePtr unknown = Acquire("b");
  SayGranted(unknown->id, kNext);
  Release(unknown);
  Break(kNext);
  EXPECT_EQ(released_.back(), ReleaseOutcome::kUnknown);
}

TEST_F(MovesTest, WaitsGoToTheNextBroker) {
  const LeasePtr held = Held("a");
  const LeasePtr waits = Acquire("b", std::chrono::seconds(2));
  const LeasePtr cancelled = Acquire("c");
  AcquireAll({"d", "e"});
  Drain();
  Cancel(cancelled);
  EXPECT_EQ(DrainAndOpen(), (Strings{"open", "acquire 3", "acquire 5 of 2", "adopt 8: lease-2 as request 1"}));
  EXPECT_EQ(Drain(kFormer), Strings{"cancel 4"}) << "a withdrawal would give the places up";
  Grant(waits);
  Say("id: 3 refused { reason: REFUSAL_REASON_DRAINING }", kFormer);
  EXPECT_EQ(answers_, (Strings{"granted", "CANCELLED"})) << "the former broker's answers do not count";
  Say("id: 4 refused { reason: REFUSAL_REASON_CANCELLED }", kFormer);
  SayGranted(3, kNext);
  EXPECT_EQ(answers_, (Strings{"granted", "CANCELLED", "granted"}));
  SayGranted(8, kNext);
  EXPECT_EQ(Drain(kFormer), Strings{}) << "two locks are on their way";
  Say("id: 5 queued {}", kNext);
  EXPECT_EQ(Drain(kFormer), Strings{"goodbye"});
}

TEST_F(MovesTest, AnAcquireThatADrainingBrokerRefusesAsksTheNext) {
  const LeasePtr held = Held("a");
  Acquire("b");
  Drain();
  Say("id: 3 refused { reason: REFUSAL_REASON_DRAINING }", kFormer);
  EXPECT_EQ(table_.present(), kNext);
  Start();
  EXPECT_EQ(Drain(kNext), (Strings{"open", "acquire 3"}));
  EXPECT_EQ(answers_, Strings{"granted"});
}

TEST_F(MovesTest, ADowngradedLeaseMovesAsShared) {
  const LeasePtr lease = Held("a");
  const LeasePtr unsure = Held("b");
  std::optional<Refusal> answer;
  table_.Downgrade(lease, [&](std::optional<Refusal> refusal) { answer = std::move(refusal); }, fx_);
  table_.Downgrade(unsure, [](const std::optional<Refusal>&) {}, fx_);
  EXPECT_EQ(DrainAndOpen(), Strings{"open"}) << "the mode is known with the answer";
  Say("id: 4 downgraded {}", kFormer);
  EXPECT_FALSE(answer);
  EXPECT_EQ(Drain(kNext), Strings{"adopt 7: lease-2 as request 1, shared"});
  Say("id: 5 refused { reason: REFUSAL_REASON_STORE_UNAVAILABLE }", kFormer);
  EXPECT_EQ(Drain(kNext), Strings{"adopt 8: lease-3 as request 2"});
  Say("id: 8 refused { reason: REFUSAL_REASON_NOT_SUPPORTED message: 'it is held SHARED' }", kNext);
  TickAt(now_);
  EXPECT_EQ(Drain(kNext), Strings{"adopt 9: lease-3 as request 2, shared"});
}

TEST_F(MovesTest, ADowngradeWaitsForTheLeaseToArrive) {
  const LeasePtr lease = Held("a");
  DrainAndOpen();
  Strings told;
  const auto tell = [&told](const std::optional<Refusal>& refusal) { told.push_back(refusal ? "refused" : "done"); };
  table_.Downgrade(lease, tell, fx_);
  EXPECT_EQ(Drain(kFormer), Strings{});
  SayGranted(4, kNext);
  EXPECT_EQ(Drain(kNext), Strings{"downgrade 4"});
  Say("id: 5 downgraded {}", kNext);
  EXPECT_EQ(told, Strings{"done"});
}

TEST_F(MovesTest, HoldsOfAReentrantLeaseMoveTogether) {
  const LockOptions options{.owner = "me", .reentrant = true};
  const LeasePtr one = Held("a", options);
  const LeasePtr two = Held("a", options);
  EXPECT_EQ(DrainAndOpen(), (Strings{"open", "adopt 5: lease-2 as request 1, 2 holds"}));
  Acquire("a", std::nullopt, options);
  Acquire("b", std::nullopt, options);
  EXPECT_EQ(Drain(kNext), Strings{"acquire 8"}) << "it would wait for itself there";
  SayGranted(5, kNext);
  TickAt(now_);
  EXPECT_EQ(Drain(kNext), Strings{});
  SayGranted(6, kNext);
  TickAt(now_);
  EXPECT_EQ(Drain(kNext), Strings{"acquire 7"});
  EXPECT_EQ(one->id, 5);
  EXPECT_EQ(two->id, 6);
  Release(two);
  EXPECT_EQ(Drain(kNext), Strings{"release 6"});
  EXPECT_TRUE(IsHeld(one));
}

TEST_F(MovesTest, OneAddressMovesNowhere) {
  LockTable table(
      {.address = "nowhere", .label = "test", .connect_timeout_ns = kV, .on_draining = [this](Duration left) {
         drains_.push_back(left.count());
       }});
  table.OnStarted(0, std::nullopt, std::nullopt, fx_);
  v1::SessionEvent draining;
  draining.mutable_draining()->mutable_time_left()->set_seconds(30);
  table.OnEvent(draining, 0, fx_, 0);
  Settle();
  EXPECT_EQ(table.present(), 0);
  EXPECT_TRUE(table.at(0).draining);
  EXPECT_EQ(drains_, std::vector<int64_t>{30'000 * kMs});
}

}  // namespace
}  // namespace distlock::internal
