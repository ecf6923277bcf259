// SPDX-License-Identifier: Apache-2.0
//
// The lock table on one live stream: grants, belief, release, cancel.
#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

TEST_F(LockTableTest, GrantIsBelievedFromTheEchoedHeartbeat) {
  const LeasePtr lease = Acquire("a");
  EXPECT_EQ(Drain(), Strings{"acquire 2"});
  now_ = 500 * kMs;
  Grant(lease);
  EXPECT_EQ(answers_, Strings{"granted"});
  EXPECT_EQ(lease->deadline_ns, kV);
  EXPECT_EQ(lease->token, 7);
  EXPECT_EQ(Drain(), Strings{}) << "enough belief is left: no extra heartbeat";
}

// An interval that tells this rule from the regular heartbeat.
TEST_F(LockTableTest, ALongGrantAsksAgainHalfWay) {
  Say("opened { validity { seconds: 3 } heartbeat_interval { seconds: 100 } }");
  Grant(Acquire("a"), 0, 2000);
  Drain();
  TickAt(999 * kMs);
  EXPECT_EQ(Drain(), Strings{});
  TickAt(1000 * kMs);
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
}

TEST_F(LockTableTest, ALateOpenedIsFollowedByAHeartbeatAtOnce) {
  Break();
  Start();
  Drain();
  now_ = 501 * kMs;
  Say(kOpened);
  TickAt(now_);
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
}

// ttl 1 s, validity 3 s: the next regular heartbeat would come after the end of belief.
TEST_F(LockTableTest, AShortLeaseAsksAgainHalfWay) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  TickAt(1000 * kMs);
  Drain();
  now_ = 1100 * kMs;
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } limits { acquire_id: 2 valid_for { nanos: 700000000 } } }");
  EXPECT_EQ(Drain(), Strings{});
  EXPECT_LE(table_.wake_ns(), 1400 * kMs);
  TickAt(1400 * kMs);
  EXPECT_EQ(Drain(), Strings{"heartbeat 2"});
}

TEST_F(LockTableTest, HeartbeatsGoOutEveryInterval) {
  TickAt(999 * kMs);
  EXPECT_EQ(Drain(), Strings{});
  TickAt(1000 * kMs);
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
  EXPECT_EQ(table_.wake_ns(), 2000 * kMs);
  TickAt(2000 * kMs);
  EXPECT_EQ(Drain(), Strings{"heartbeat 2"});
}

TEST_F(LockTableTest, AckExtendsAllButTheLimited) {
  const LeasePtr free = Acquire("a");
  const LeasePtr limited = Acquire("b");
  Grant(free);
  Grant(limited);
  TickAt(1000 * kMs);
  Drain();
  now_ = 1100 * kMs;
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } limits { acquire_id: 3 valid_for { nanos: 500000000 } } }");
  EXPECT_EQ(free->deadline_ns, 1000 * kMs + kV);
  EXPECT_EQ(limited->deadline_ns, 1000 * kMs + 500 * kMs);
  TickAt(table_.wake_ns());
  EXPECT_EQ(Drain(), Strings{"heartbeat 2"}) << "so that it may still be saved";
  EXPECT_EQ(table_.wake_ns(), limited->deadline_ns);
  TickAt(limited->deadline_ns);
  EXPECT_EQ(limited->cause, EndCause::kLapsed);
  EXPECT_EQ(Drain(), Strings{"lapsed 3"}) << "or the broker would keep it";
  EXPECT_EQ(free->cause, EndCause::kNotEnded);
}

TEST_F(LockTableTest, AckWithNothingLeftEndsTheLease) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  TickAt(1000 * kMs);
  Drain();
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } limits { acquire_id: 2 valid_for {} } }");
  EXPECT_EQ(lease->cause, EndCause::kLapsed);
}

TEST_F(LockTableTest, StaleGrantWaitsForTheHeartbeatItAsksFor) {
  const LeasePtr lease = Acquire("a");
  Drain();
  now_ = 3000 * kMs;
  Grant(lease);
  EXPECT_EQ(answers_, Strings{});
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
}

TEST_F(LockTableTest, StaleGrantIsDeliveredByTheNextAck) {
  const LeasePtr lease = Acquire("a");
  Drain();
  now_ = 900 * kMs;
  Grant(lease, 0, 500);
  EXPECT_EQ(answers_, Strings{});
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
  now_ = 1000 * kMs;
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }");
  EXPECT_EQ(answers_, Strings{"granted"});
  EXPECT_EQ(lease->deadline_ns, 900 * kMs + kV);
}

TEST_F(LockTableTest, StaleGrantIsGivenBackByGoodbye) {
  const LeasePtr lease = Acquire("a");
  Acquire("b");
  Drain();
  now_ = 900 * kMs;
  Grant(lease, 0, 500);
  Say("id: 3 refused { reason: REFUSAL_REASON_DRAINING }");
  Say("id: 2 lost { reason: LOST_REASON_EXPIRED }");
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }");
  EXPECT_EQ(answers_, Strings{}) << "neither what was given back nor what was lost is delivered";
  Break();
  Start();
  EXPECT_EQ(Drain(), (Strings{"open", "acquire 2", "acquire 3"}));
}

TEST_F(LockTableTest, NoHeartbeatForEveryOneOfManyStaleGrants) {
  std::vector<LeasePtr> leases;
  for (int i = 0; i < 100; ++i) leases.push_back(Acquire("k" + std::to_string(i)));
  Drain();
  now_ = 2000 * kMs;
  for (const LeasePtr& lease : leases) {
    Grant(lease);
    EXPECT_LE(Drain().size(), lease == leases.front() ? 1u : 0u);
  }
}

TEST_F(LockTableTest, ReleaseEndsBeliefBeforeItIsSent) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  Drain();
  ReleaseOutcome outcome = ReleaseOutcome::kUnknown;
  table_.Release(lease, [&](ReleaseOutcome o) { outcome = o; }, now_, fx_);
  EXPECT_EQ(lease->cause, EndCause::kReleased);
  EXPECT_EQ(Drain(), Strings{"release 2"});
  Say("id: 3 released { outcome: RELEASE_OUTCOME_RELEASED }");
  EXPECT_EQ(outcome, ReleaseOutcome::kReleased);
}

TEST_F(LockTableTest, LostNamesItsCause) {
  const struct {
    const char* wire;
    EndCause cause;
  } rows[] = {{"EXPIRED", EndCause::kExpired},
              {"TAKEN", EndCause::kTaken},
              {"FORCED", EndCause::kForced},
              {"MAX_HOLD", EndCause::kMaxHold},
              {"DRAINED", EndCause::kDrained}};
  for (const auto& row : rows) {
    const LeasePtr lease = Acquire("a");
    Grant(lease);
    const std::stop_token token = table_.StopToken(*lease);
    Say("id: " + std::to_string(lease->id) + " lost { reason: LOST_REASON_" + row.wire + " message: 'why' }");
    EXPECT_EQ(lease->cause, row.cause);
    EXPECT_EQ(lease->end_message, "why");
    EXPECT_TRUE(token.stop_requested());
  }
}

TEST_F(LockTableTest, ReleasedByItsLeaseIdEndsTheLease) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  const std::stop_token token = table_.StopToken(*lease);
  Drain();
  Say("id: 2 released { outcome: RELEASE_OUTCOME_RELEASED }");
  EXPECT_EQ(lease->cause, EndCause::kReleased);
  EXPECT_EQ(lease->end_message, "released by its lease_id");
  EXPECT_TRUE(token.stop_requested());
  ReleaseOutcome outcome = ReleaseOutcome::kUnknown;
  table_.Release(lease, [&](ReleaseOutcome o) { outcome = o; }, now_, fx_);
  Settle();
  EXPECT_EQ(outcome, ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(Drain(), Strings{});
}

TEST_F(LockTableTest, WhoReleasesALeaseThatHasJustEndedFindsItsTokenStopped) {
  const LeasePtr lease = Acquire("key");
  Grant(lease);
  const std::stop_token token = table_.StopToken(*lease);
  Effects of_the_library_thread;  // which has not run them yet
  table_.Tick(4 * kV, of_the_library_thread);
  ASSERT_FALSE(token.stop_requested());
  table_.Release(lease, nullptr, 4 * kV, fx_);
  Settle();
  EXPECT_TRUE(token.stop_requested());
}

TEST_F(LockTableTest, ReleasedByItsLeaseIdBeforeItIsDelivered) {
  const LeasePtr lease = Acquire("a");
  now_ = 3000 * kMs;
  Grant(lease);
  EXPECT_EQ(answers_, Strings{});
  Say("id: 2 released { outcome: RELEASE_OUTCOME_RELEASED }");
  EXPECT_EQ(answers_, Strings{"LEASE_LOST"});
  Drain();
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }");
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(LockTableTest, ReleasedByItsLeaseIdAcrossOurOwnRelease) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  std::vector<ReleaseOutcome> outcomes;
  table_.Release(lease, [&](ReleaseOutcome o) { outcomes.push_back(o); }, now_, fx_);
  Say("id: 2 released { outcome: RELEASE_OUTCOME_RELEASED }");
  EXPECT_TRUE(outcomes.empty());
  EXPECT_EQ(lease->end_message, "");
  Say("id: 3 released { outcome: RELEASE_OUTCOME_ALREADY_GONE }");
  EXPECT_EQ(outcomes, std::vector{ReleaseOutcome::kAlreadyGone});
}

TEST_F(LockTableTest, AtRiskComesAndGoes) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  Say("id: 2 at_risk { cause: 'store' }");
  EXPECT_TRUE(lease->at_risk);
  Say("id: 2 renewed {}");
  EXPECT_FALSE(lease->at_risk);
}

TEST_F(LockTableTest, WhatCouldNotBeRenewedIsToldApartFromABrokerThatIsSilent) {
  const LeasePtr lease = Acquire("a");
  Grant(lease);
  TickAt(1000 * kMs);
  Drain();
  Say("id: 2 at_risk { cause: 'the store is read-only' }");
  now_ = 1100 * kMs;
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } limits { acquire_id: 2 valid_for { nanos: 500000000 } } }");
  TickAt(lease->deadline_ns);
  EXPECT_EQ(lease->cause, EndCause::kExpired);
  EXPECT_EQ(lease->end_message, "could not be renewed in time: the store is read-only");
}

TEST_F(LockTableTest, AnUnansweredHeartbeatIsARiskWhenHalfOfTheRestIsGone) {
  Grant(Acquire("a"));
  Drain();
  TickAt(1000 * kMs);
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
  EXPECT_FALSE(table_.IsOverdue(kV, 1999 * kMs));
  EXPECT_TRUE(table_.IsOverdue(kV, 2000 * kMs));
  EXPECT_TRUE(table_.IsOverdue(2000 * kMs, 1500 * kMs)) << "one with less left";
  TickAt(2000 * kMs);
  EXPECT_EQ(Drain(), Strings{"heartbeat 2"});
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }");
  EXPECT_FALSE(table_.IsOverdue(4000 * kMs, 2999 * kMs)) << "counts from the second heartbeat";
  EXPECT_TRUE(table_.IsOverdue(4000 * kMs, 3000 * kMs));
  Say("heartbeat_ack { seq: 2 valid_for { seconds: 3 } }");
  EXPECT_FALSE(table_.IsOverdue(5000 * kMs, 4999 * kMs));
}

TEST_F(LockTableTest, CancelIsAnsweredAtOnce) {
  Cancel(Acquire("a"));
  EXPECT_EQ(answers_, Strings{"CANCELLED"});
  EXPECT_EQ(Drain(), (Strings{"acquire 2", "cancel 2"}));
  Say("id: 2 refused { reason: REFUSAL_REASON_CANCELLED }");
  EXPECT_EQ(answers_, Strings{"CANCELLED"});
}

TEST_F(LockTableTest, AGrantThatCrossesACancelIsTheBrokersToGiveBack) {
  const LeasePtr lease = Acquire("a");
  Cancel(lease);
  Drain();
  Grant(lease);
  EXPECT_EQ(answers_, Strings{"CANCELLED"});
  EXPECT_EQ(lease->phase, Lease::Phase::kEnded);
  EXPECT_EQ(Drain(), Strings{});
  Say("id: 2 refused { reason: REFUSAL_REASON_CANCELLED }");
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(LockTableTest, ABoundedWaitWithoutAnswerIsEndedHere) {
  const LeasePtr lease = Acquire("a", std::chrono::milliseconds(200));
  Drain();
  TickAt(200 * kMs);
  EXPECT_EQ(answers_, Strings{}) << "the broker's to answer";
  TickAt(701 * kMs);
  EXPECT_EQ(answers_, Strings{"WAIT_TIMEOUT"});
  EXPECT_EQ(Drain(), Strings{"cancel 2"}) << "which also gives back what is granted meanwhile";
  Grant(lease);
  EXPECT_EQ(answers_.size(), 1u);
}

}  // namespace
}  // namespace distlock::internal
