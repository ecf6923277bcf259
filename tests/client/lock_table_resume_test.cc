// SPDX-License-Identifier: Apache-2.0
//
// The lock table: leases that are to outlive the end of their stream.
#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

class ResumeTest : public LockTableTest {
 protected:
  LeasePtr Held(const std::string& key, LockOptions options = {.resume = true}) {
    const LeasePtr lease = Acquire(key, std::nullopt, std::move(options));
    Grant(lease);
    Drain();
    return lease;
  }

  Strings Open(const std::string& opened = kOpened) {
    Start();
    Say(opened);
    return Drain();
  }
};

TEST_F(ResumeTest, ABrokenStreamIsARiskUntilTheNextAdoptsTheLease) {
  const LeasePtr lease = Held("a");
  const LeasePtr not_resumed = Held("b", {});
  now_ = 1000 * kMs;
  Break();
  EXPECT_EQ(not_resumed->cause, EndCause::kDisconnected);
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  EXPECT_TRUE(lease->at_risk);
  EXPECT_EQ(lease->deadline_ns, kV);
  EXPECT_TRUE(table_.moving());
  EXPECT_EQ(Open(), (Strings{"open", "adopt 5: lease-2 as request 1"}));
  SayGranted(5, 0);
  EXPECT_FALSE(lease->at_risk);
  EXPECT_EQ(lease->deadline_ns, 4000 * kMs);
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  TickAt(2000 * kMs);
  Say("heartbeat_ack { seq: 0 valid_for { seconds: 3 } }");
  EXPECT_EQ(answers_, (Strings{"granted", "granted"}));
}

TEST_F(ResumeTest, BeliefEndsFirst) {
  const LeasePtr lease = Held("a");
  const std::stop_token stop = table_.StopToken(*lease);
  Break();
  TickAt(kV - 1);
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  EXPECT_EQ(table_.wake_ns(), kV);
  TickAt(kV);
  EXPECT_EQ(lease->cause, EndCause::kLapsed);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(Open(), (Strings{"open", "adopt 4: lease-2 as request 1", "lapsed 4"})) << "nobody else could release it";
}

TEST_F(ResumeTest, WhatIsRefusedUntilItsEndHasExpired) {
  const LeasePtr lease = Held("a");
  Break();
  TickAt(1000 * kMs);
  Open();
  TickAt(1000 * kMs);
  Say("id: 4 refused { reason: REFUSAL_REASON_STORE_UNAVAILABLE retry_after { seconds: 60 } }");
  EXPECT_EQ(table_.wake_ns(), 1500 * kMs) << "not so late";
  TickAt(1500 * kMs);
  EXPECT_EQ(Drain(), Strings{"adopt 5: lease-2 as request 1"});
  TickAt(kV);
  EXPECT_EQ(lease->cause, EndCause::kExpired);
  EXPECT_EQ(lease->end_message, "could not be renewed in time: cut");
  const Strings sent = Drain();
  EXPECT_NE(std::find(sent.begin(), sent.end(), "lapsed 5"), sent.end());
}

TEST_F(ResumeTest, AStreamThatBreaksAgainRepeatsTheRequest) {
  const LeasePtr lease = Held("a");
  Break();
  EXPECT_EQ(Open().back(), "adopt 4: lease-2 as request 1");
  Break();
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  EXPECT_EQ(Open().back(), "adopt 6: lease-2 as request 1");
  SayGranted(6, 0);
  Break();
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  EXPECT_EQ(Open().back(), "adopt 8: lease-6 as request 2") << "a move of its own";
}

TEST_F(ResumeTest, AReleaseWithoutASessionIsMadeUpForInTheNext) {
  const LeasePtr lease = Held("a");
  const LeasePtr asked = Held("b");
  Break();
  std::vector<ReleaseOutcome> outcomes;
  table_.Release(lease, [&](ReleaseOutcome outcome) { outcomes.push_back(outcome); }, now_, fx_);
  Settle();
  EXPECT_EQ(outcomes, std::vector{ReleaseOutcome::kUnknown});
  EXPECT_EQ(lease->cause, EndCause::kReleased);
  EXPECT_EQ(Open(), (Strings{"open", "adopt 5: lease-3 as request 2", "adopt 6: lease-2 as request 1", "release 6"}));
  Break();
  table_.Release(asked, nullptr, now_, fx_);
  Settle();
  EXPECT_EQ(Open(), (Strings{"open", "adopt 9: lease-2 as request 1", "release 9", "adopt 11: lease-3 as request 2",
                             "release 11"}))
      << "what was not answered is asked again; the first try may have come";
  Say("id: 9 refused { reason: REFUSAL_REASON_NOT_HOLDER }");
  Say("id: 10 released { outcome: RELEASE_OUTCOME_ALREADY_GONE }");
  Say("id: 11 granted { fencing_token: 7 valid_for { seconds: 3 } }");
  EXPECT_EQ(asked->phase, Lease::Phase::kEnded);
}

TEST_F(ResumeTest, WhoReleasesHearsOnceHoweverLate) {
  const LeasePtr lease = Held("a");
  Break();
  std::vector<ReleaseOutcome> outcomes;
  Effects later;  // of a thread that is busy
  table_.Release(lease, [&](ReleaseOutcome outcome) { outcomes.push_back(outcome); }, now_, later);
  EXPECT_EQ(Open(), (Strings{"open", "adopt 4: lease-2 as request 1", "release 4"}));
  Say("id: 4 granted { fencing_token: 7 valid_for { seconds: 3 } }");
  Say("id: 5 released { outcome: RELEASE_OUTCOME_RELEASED }");
  later.Run({});
  EXPECT_EQ(outcomes, std::vector{ReleaseOutcome::kUnknown});
}

TEST_F(ResumeTest, ASilentBrokerLeavesNothingToResume) {
  const LeasePtr lease = Held("a");
  now_ = kV;
  ASSERT_TRUE(table_.at(0).IsLapsed(now_));
  Break(0, std::nullopt, EndCause::kLapsed);
  EXPECT_EQ(lease->cause, EndCause::kLapsed);
}

TEST_F(ResumeTest, WhatItsBrokerFreesAtOnceOrCannotMoveEndsAtOnce) {
  const LeasePtr at_once = Held("a", {.on_disconnect = OnDisconnect::kRelease, .resume = true});
  Break();
  EXPECT_EQ(at_once->cause, EndCause::kDisconnected);
  Open("opened { validity { seconds: 3 } }");
  const LeasePtr lease = Held("b");
  Break();
  EXPECT_EQ(lease->cause, EndCause::kDisconnected);
}

TEST_F(ResumeTest, ADrainThatEndsIsNoEndYet) {
  const LeasePtr lease = Held("a");
  Say("draining { time_left { seconds: 30 } }");
  EXPECT_EQ(drains_.size(), 1u) << "one address";
  Say("id: 2 lost { reason: LOST_REASON_DRAINED message: 'time is up' }");
  EXPECT_EQ(lease->cause, EndCause::kNotEnded);
  EXPECT_TRUE(lease->at_risk);
  TickAt(1000 * kMs);
  Drain();
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }");
  EXPECT_EQ(lease->deadline_ns, kV) << "that session does not speak for it any more";
  Break();
  EXPECT_EQ(Open().back(), "adopt 4: lease-2 as request 1");
}

TEST_F(ResumeTest, AnAcquireOfTheSameOwnerWaitsForTheLease) {
  const LockOptions options{.owner = "me", .reentrant = true, .resume = true};
  const LeasePtr lease = Held("a", options);
  Break();
  Acquire("a", std::nullopt, options);
  EXPECT_EQ(Open(), (Strings{"open", "adopt 5: lease-2 as request 1"}));
  Say("id: 5 refused { reason: REFUSAL_REASON_NOT_HOLDER }");
  EXPECT_EQ(lease->cause, EndCause::kTaken);
  TickAt(now_);
  EXPECT_EQ(Drain(), Strings{"acquire 3"}) << "it waits for itself no longer";
}

TEST_F(ResumeTest, CloseAndAPermanentRefusal) {
  const LeasePtr lease = Held("a");
  Acquire("b");
  Break(0, Refusal{.reason = RefusalReason::kPermissionDenied, .message = "not you"});
  EXPECT_EQ(answers_.back(), "PERMISSION_DENIED");
  EXPECT_EQ(lease->cause, EndCause::kNotEnded) << "its last promise holds";
  table_.Close(now_, fx_);
  EXPECT_EQ(lease->cause, EndCause::kClientClosed);
}

}  // namespace
}  // namespace distlock::internal
