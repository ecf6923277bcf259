// SPDX-License-Identifier: Apache-2.0
//
// The lock table: groups of acquires, and re-entry.
#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

TEST_F(LockTableTest, AGroupIsAskedForInOneCommandAndGrantedInOneStep) {
  AcquireAll({"a", "b", "c"});
  EXPECT_EQ(Drain(), Strings{"acquire 2 of 3"});
  Grant(3);
  Grant(2);
  EXPECT_EQ(answers_, Strings{}) << "two of three are nothing";
  Grant(4);
  EXPECT_EQ(answers_, (Strings{"granted", "granted", "granted"}));
  Acquire("d");
  EXPECT_EQ(Drain(), Strings{"acquire 5"}) << "its ids are not given to anybody else";
}

TEST_F(LockTableTest, AGroupOfOneIsAPlainAcquire) {
  AcquireAll({"a"});
  EXPECT_EQ(Drain(), Strings{"acquire 2"});
  Grant(2);
  EXPECT_EQ(answers_, Strings{"granted"});
}

TEST_F(LockTableTest, AGroupsWaitGoesOverTheWireInEachOfItsLocks) {
  AcquireAll({"a", "b"}, std::chrono::seconds(2));
  AcquireAll({"c", "d"}, std::chrono::seconds(0));
  const v1::SessionRequest message = Packed(0);
  for (const v1::LockSpec& lock : message.commands(0).acquire().locks()) {
    EXPECT_EQ(lock.max_wait().seconds(), 2);
  }
  for (const v1::LockSpec& lock : message.commands(1).acquire().locks()) {
    EXPECT_TRUE(lock.has_max_wait());
    EXPECT_EQ(lock.max_wait().seconds(), 0);
  }
}

TEST_F(LockTableTest, OneRefusalRefusesTheGroup) {
  AcquireAll({"a", "b"});
  Say("id: 2 refused { reason: REFUSAL_REASON_LOCK_HELD }");
  EXPECT_EQ(answers_, (Strings{"LOCK_HELD", "LOCK_HELD"}));
  Say("id: 3 refused { reason: REFUSAL_REASON_LOCK_HELD }");
  EXPECT_EQ(answers_.size(), 2u) << "each is answered once";
}

TEST_F(LockTableTest, AGrantAfterTheGroupsRefusalIsNotHandedOut) {
  AcquireAll({"a", "b", "c"});
  Grant(2);
  Say("id: 3 refused { reason: REFUSAL_REASON_STORE_UNAVAILABLE }");
  EXPECT_EQ(answers_.size(), 3u);
  Grant(4);
  EXPECT_EQ(answers_.size(), 3u);
}

TEST_F(LockTableTest, CancelOfAGroupWithdrawsEachOfItsLocks) {
  const LeasePtr first = AcquireAll({"a", "b"});
  Drain();
  Cancel(first);
  EXPECT_EQ(Drain(), (Strings{"cancel 2", "cancel 3"})) << "the grants of some may be on their way";
  Say("id: 2 refused { reason: REFUSAL_REASON_CANCELLED }");
  Say("id: 3 refused { reason: REFUSAL_REASON_CANCELLED }");
  EXPECT_EQ(answers_, (Strings{"CANCELLED", "CANCELLED"}));
}

TEST_F(LockTableTest, GrantsThatCrossTheCancelOfAGroupAreNotHandedOut) {
  const LeasePtr first = AcquireAll({"a", "b"});
  Cancel(first);
  Drain();
  Grant(2);
  Grant(3);
  EXPECT_EQ(answers_, (Strings{"CANCELLED", "CANCELLED"}));
}

TEST_F(LockTableTest, CancelBetweenTheGrantsGivesBackWhatIsThere) {
  const LeasePtr first = AcquireAll({"a", "b"});
  Drain();
  Grant(3);
  Cancel(first);
  EXPECT_EQ(Drain(), (Strings{"cancel 2", "release 3"}));
  EXPECT_EQ(answers_, (Strings{"CANCELLED", "CANCELLED"}));
}

TEST_F(LockTableTest, TheBoundOfAGroupsWaitEndsAll) {
  AcquireAll({"a", "b"}, std::chrono::milliseconds(100));
  Drain();
  TickAt(99 * kMs);
  EXPECT_EQ(answers_, Strings{});
  TickAt(700 * kMs);
  EXPECT_EQ(answers_, (Strings{"WAIT_TIMEOUT", "WAIT_TIMEOUT"}));
  EXPECT_EQ(Drain(), (Strings{"cancel 2", "cancel 3"}));
  Grant(2);
  Grant(3);
  EXPECT_EQ(answers_.size(), 2u);
}

TEST_F(LockTableTest, AReconnectAsksForAGroupAgainInOneCommand) {
  AcquireAll({"a", "b"}, std::chrono::seconds(2));
  Grant(2);
  now_ = 500 * kMs;
  Break();
  EXPECT_EQ(answers_, Strings{}) << "nothing was handed out";
  Start();
  const v1::SessionRequest message = Packed(0);
  ASSERT_EQ(message.commands_size(), 2);
  EXPECT_EQ(message.commands(1).id(), 2);
  const v1::AcquireLocks& again = message.commands(1).acquire();
  ASSERT_EQ(again.locks_size(), 2);
  EXPECT_EQ(again.locks(1).key(), "b");
  EXPECT_EQ(again.locks(1).max_wait().nanos(), 500'000'000);
}

TEST_F(LockTableTest, WithoutABrokerAGroupEndsAsOne) {
  Break();
  AcquireAll({"a", "b"});
  TickAt(10'000 * kMs);
  EXPECT_EQ(answers_, (Strings{"UNREACHABLE", "UNREACHABLE"}));
  Start();
  EXPECT_EQ(Drain(), Strings{"open"});
}

TEST_F(LockTableTest, ADrainingBrokerIsLeftWithTheWholeGroup) {
  AcquireAll({"a", "b"});
  Drain();
  Say("id: 2 refused { reason: REFUSAL_REASON_DRAINING }");
  Say("id: 3 refused { reason: REFUSAL_REASON_DRAINING }");
  EXPECT_EQ(answers_, Strings{});
  EXPECT_EQ(Drain(), Strings{"goodbye"});
  Break();
  Start();
  EXPECT_EQ(Drain(), (Strings{"open", "acquire 2 of 2"}));
}

TEST_F(LockTableTest, StaleGrantsOfAGroupWaitForTheHeartbeatTogether) {
  AcquireAll({"a", "b"});
  Grant(2);
  Drain();
  now_ = 2000 * kMs;
  Grant(3, 0, 1000);
  EXPECT_EQ(answers_, Strings{});
  EXPECT_EQ(Drain(), Strings{"heartbeat 1"});
  Say("heartbeat_ack { seq: 1 valid_for { seconds: 3 } }");
  ASSERT_EQ(answers_, (Strings{"granted", "granted"}));
  EXPECT_EQ(held_[2]->deadline_ns, 2000 * kMs + kV);
  TickAt(held_[2]->deadline_ns);
  EXPECT_EQ(held_[3]->cause, EndCause::kLapsed);
}

TEST_F(LockTableTest, LossBeforeUseIsARefusalOfAll) {
  AcquireAll({"a", "b"});
  Drain();
  Grant(2);
  Say("id: 2 lost { reason: LOST_REASON_TAKEN message: \"gone\" }");
  EXPECT_EQ(answers_, (Strings{"LEASE_LOST", "LEASE_LOST"}));
  EXPECT_EQ(Drain(), Strings{"cancel 3"});
  Grant(3);
  EXPECT_EQ(answers_.size(), 2u);
}

TEST_F(LockTableTest, OnceGrantedEachIsALeaseOfItsOwn) {
  AcquireAll({"a", "b", "c"});
  for (const int64_t id : {2, 3, 4}) Grant(id);
  ASSERT_EQ(held_.size(), 3u);
  Drain();
  Say("id: 3 lost { reason: LOST_REASON_TAKEN }");
  EXPECT_EQ(held_[3]->cause, EndCause::kTaken);
  EXPECT_EQ(held_[2]->cause, EndCause::kNotEnded);
  table_.Release(held_[2], nullptr, now_, fx_);
  EXPECT_EQ(Drain(), Strings{"release 2"});
  EXPECT_EQ(held_[4]->cause, EndCause::kNotEnded);
}

TEST_F(LockTableTest, MoreThanAMessageTakesIsRefusedHere) {
  const std::vector<std::string> keys(64, std::string(1000, 'k'));
  AcquireAll(keys);
  EXPECT_EQ(answers_, Strings(64, "INVALID_ARGUMENT"));
  AcquireAll({"fine", "\xff"});
  EXPECT_EQ(answers_.size(), 66u);
  EXPECT_EQ(Drain(), Strings{});
}

TEST_F(LockTableTest, ABrokerThatTakesLargerMessagesIsAskedForMore) {
  const std::vector<std::string> keys(64, std::string(1000, 'k'));
  Break();
  Start();
  AcquireAll(keys);
  EXPECT_EQ(Drain(), Strings{"open"}) << "held back until the broker tells its limit";
  Say("opened { validity { seconds: 3 } max_message_bytes: 131072 }");
  const v1::SessionRequest message = Packed(0);
  EXPECT_EQ(message.commands(0).acquire().locks_size(), 64);
  EXPECT_LE(message.ByteSizeLong(), 131072u);
  EXPECT_EQ(answers_, Strings{});
  AcquireAll(keys);
  EXPECT_EQ(Drain(), Strings{"acquire 67 of 64"}) << "the limit is known";

  Break();
  Start();
  EXPECT_EQ(Drain(), Strings{"open"}) << "the next broker may take less";
  Acquire("a");
  Say("opened { validity { seconds: 3 } max_message_bytes: 65536 }");
  EXPECT_EQ(answers_, Strings(128, "INVALID_ARGUMENT"));
  EXPECT_EQ(Drain(), Strings{"acquire 132"});
}

TEST_F(LockTableTest, AGroupThatIsHeldBackWaitsNoLongerThanItMay) {
  const std::vector<std::string> keys(64, std::string(1000, 'k'));
  Break();
  Start();
  AcquireAll(keys, std::chrono::milliseconds(100));
  const LeasePtr cancelled = AcquireAll(keys);
  Cancel(cancelled);
  EXPECT_EQ(answers_, Strings(64, "CANCELLED"));
  TickAt(100 * kMs);
  EXPECT_EQ(answers_.size(), 128u);
  EXPECT_EQ(answers_.back(), "UNREACHABLE");
  Say("opened { validity { seconds: 3 } max_message_bytes: 131072 }");
  EXPECT_EQ(Drain(), Strings{"open"});
}

TEST_F(LockTableTest, TakenAgainEachGrantIsGivenBackByItself) {
  const LeasePtr first = Acquire("a");
  const LeasePtr again = Acquire("a");
  Grant(first);
  Say("id: 3 granted { fencing_token: 7 hold_count: 2 valid_for { seconds: 3 } }");
  EXPECT_EQ(first->hold_count, 1);
  EXPECT_EQ(again->hold_count, 2);
  Drain();
  std::vector<ReleaseOutcome> outcomes;
  const auto note = [&](ReleaseOutcome outcome) { outcomes.push_back(outcome); };
  table_.Release(again, note, now_, fx_);
  EXPECT_EQ(Drain(), Strings{"release 3"});
  Say("id: 4 released { outcome: RELEASE_OUTCOME_STILL_HELD }");
  EXPECT_EQ(first->cause, EndCause::kNotEnded);
  table_.Release(first, note, now_, fx_);
  Say("id: 5 released { outcome: RELEASE_OUTCOME_RELEASED }");
  EXPECT_EQ(outcomes, (std::vector{ReleaseOutcome::kStillHeld, ReleaseOutcome::kReleased}));
}

}  // namespace
}  // namespace distlock::internal
