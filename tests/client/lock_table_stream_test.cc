// SPDX-License-Identifier: Apache-2.0
//
// The lock table when streams break, drain and close.
#include "lock_table_fixture.h"

namespace distlock::internal {
namespace {

TEST_F(LockTableTest, BrokenStreamLosesLeasesAndKeepsWaits) {
  const LeasePtr held = Acquire("a");
  const LeasePtr waits = Acquire("b", std::chrono::seconds(2));
  const LeasePtr waits_too = Acquire("c");
  Grant(held);
  Drain();
  now_ = 500 * kMs;
  Break();
  EXPECT_EQ(held->cause, EndCause::kDisconnected);
  EXPECT_EQ(answers_, Strings{"granted"});
  now_ = 600 * kMs;
  Start();
  const v1::SessionRequest message = Packed(0);
  ASSERT_EQ(message.commands_size(), 3);
  const v1::LockSpec& again = message.commands(1).acquire().locks(0);
  EXPECT_EQ(again.key(), "b");
  EXPECT_EQ(again.max_wait().seconds(), 1);
  EXPECT_EQ(again.max_wait().nanos(), 400'000'000);
  EXPECT_FALSE(message.commands(2).acquire().locks(0).has_max_wait());
}

TEST_F(LockTableTest, EachSessionOpensWithTheClaimThatItIsGiven) {
  Break();
  Start(ProcessClaim{.boot_id = "boot", .pidfd_inode = 4711});
  const v1::SessionRequest message = Packed(0);
  ASSERT_GT(message.commands_size(), 0);
  const v1::OpenSession& open = message.commands(0).open();
  EXPECT_EQ(open.process().boot_id(), "boot");
  EXPECT_EQ(open.process().pidfd_inode(), 4711);
  Break();
  Start();
  EXPECT_FALSE(Packed(0).commands(0).open().has_process());
}

TEST_F(LockTableTest, WithoutABrokerAWaitEndsAtItsBoundOrTheTimeout) {
  Break();
  Acquire("short", std::chrono::seconds(1));
  Acquire("long", std::chrono::minutes(1));
  Acquire("one try", std::chrono::seconds(0));
  Acquire("for ever");
  TickAt(999 * kMs);
  EXPECT_EQ(answers_.size(), 0u);
  TickAt(1000 * kMs);
  EXPECT_EQ(answers_, Strings{"UNREACHABLE"});
  TickAt(10'000 * kMs);
  EXPECT_EQ(answers_.size(), 4u);
}

TEST_F(LockTableTest, PermanentFailureRefusesAllAtOnce) {
  Acquire("a");
  Break(0, Refusal{.reason = RefusalReason::kPermissionDenied, .message = "not you"});
  EXPECT_EQ(answers_, Strings{"PERMISSION_DENIED"});
}

TEST_F(LockTableTest, DrainingBrokerIsLeftWhenNothingIsHeld) {
  const LeasePtr lease = Acquire("a");
  Drain();
  Say("id: 2 refused { reason: REFUSAL_REASON_DRAINING }");
  EXPECT_EQ(answers_, Strings{});
  EXPECT_EQ(Drain(), Strings{"goodbye"});
  Grant(lease);
  EXPECT_EQ(answers_, Strings{}) << "too late: goodbye is said";
  Break();
  Start();
  EXPECT_EQ(Drain(), (Strings{"open", "acquire 2"}));
}

TEST_F(LockTableTest, DrainingIsToldWhileSomethingIsHeld) {
  Grant(Acquire("a"));
  Acquire("b");
  Say("id: 3 refused { reason: REFUSAL_REASON_DRAINING }");
  EXPECT_EQ(answers_, (Strings{"granted", "DRAINING"}));
}

TEST_F(LockTableTest, WhatTheBrokerCouldNotReadIsRefusedHere) {
  Acquire("\xff\xfe");
  Acquire(std::string(1 << 20, 'k'));
  EXPECT_EQ(answers_, (Strings{"INVALID_ARGUMENT", "INVALID_ARGUMENT"}));
  EXPECT_EQ(Drain(), Strings{});
}

TEST_F(LockTableTest, ThousandsOfCommandsStayBelowTheMessageLimit) {
  Say("opened { validity { seconds: 3 } max_unanswered: 10000 }");
  for (int i = 0; i < 5000; ++i) Acquire(std::string(100, 'k'));
  size_t commands = 0;
  for (v1::SessionRequest message; table_.Pack(now_, 0, message); message.Clear()) {
    EXPECT_LT(message.ByteSizeLong(), 64u << 10);
    commands += static_cast<size_t>(message.commands_size());
  }
  EXPECT_EQ(commands, 5000u);
}

TEST_F(LockTableTest, BatchesAreAsLargeAsTheBrokerAllows) {
  for (const size_t most : {size_t{16} << 10, size_t{256} << 10}) {
    Say("opened { validity { seconds: 3 } max_unanswered: 20000 max_message_bytes: " + std::to_string(most) + " }");
    for (int i = 0; i < 5000; ++i) Acquire(std::string(100, 'k'));
    size_t largest = 0;
    for (v1::SessionRequest message; table_.Pack(now_, 0, message); message.Clear()) {
      largest = std::max(largest, message.ByteSizeLong());
    }
    EXPECT_LE(largest, most);
    EXPECT_GT(largest, most / 2);
  }
}

TEST_F(LockTableTest, NoMoreThanTheBrokerWantsGoAhead) {
  Say("opened { validity { seconds: 3 } max_unanswered: 2 }");
  std::vector<LeasePtr> leases;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(Acquire(std::string(1, static_cast<char>('a' + i))));
    EXPECT_LE(Packed(0).commands_size(), 1);
  }
  EXPECT_EQ(Packed(0).commands_size(), 0);
  EXPECT_FALSE(table_.at(0).HasNext());
  Grant(leases[0]);
  const v1::SessionRequest message = Packed(0);
  ASSERT_GT(message.commands_size(), 0);
  EXPECT_EQ(message.commands(message.commands_size() - 1).id(), leases[2]->id);
}

TEST_F(LockTableTest, CloseAnswersEverybody) {
  const LeasePtr held = Acquire("a");
  Grant(held);
  Acquire("b");
  table_.Close(now_, fx_);
  Settle();
  EXPECT_EQ(held->cause, EndCause::kClientClosed);
  EXPECT_EQ(answers_, (Strings{"granted", "CLIENT_CLOSED"}));
  EXPECT_EQ(Drain().back(), "goodbye");
  Acquire("c");
  EXPECT_EQ(answers_.back(), "CLIENT_CLOSED");
}

TEST_F(LockTableTest, ABrokerThatGrantsBeforeItOpensIsNotAskedWithoutEnd) {
  now_ = 1000 * kMs;
  Break();
  const LeasePtr lease = Acquire("a");
  Start();
  Drain();
  Grant(lease, 1);  // of a heartbeat that was never sent
  EXPECT_EQ(Drain(), (std::vector<std::string>{"heartbeat 1"}));
  EXPECT_GT(table_.wake_ns(), now_);
}

TEST_F(LockTableTest, NumbersOfABrokerGoneMadDoNotOverflow) {
  Break();
  now_ = int64_t{400} * 86'400'000 * kMs;  // of uptime
  Start();
  Say("opened { validity { seconds: 9223372036854775807 nanos: 2147483647 } }");
  const LeasePtr refused = Acquire("a");
  Say("id: " + std::to_string(refused->id) +
      " refused { reason: REFUSAL_REASON_LOCK_HELD holders { acquire_time { seconds: 9223372036854775807 } } }");
  const LeasePtr granted = Acquire("b");
  Say("id: " + std::to_string(granted->id) + " granted { valid_for { seconds: 9223372036 nanos: 2147483647 } }");
  EXPECT_EQ(answers_, (Strings{"LOCK_HELD", "granted"}));
  EXPECT_TRUE(now_ + kV < granted->deadline_ns);
}

TEST_F(LockTableTest, ADowngradeIsAnsweredOnce) {
  Strings told;
  const auto tell = [&told](std::optional<Refusal> refusal) {
    told.push_back(refusal ? std::string(Name(refusal->reason)) : "done");
  };
  const LeasePtr lease = Acquire("k");
  table_.Downgrade(lease, tell, fx_);
  Settle();
  EXPECT_EQ(told, Strings{"NOT_HOLDER"});
  told.clear();
  Grant(lease);
  Drain();
  table_.Downgrade(lease, tell, fx_);
  table_.Downgrade(lease, tell, fx_);
  table_.Downgrade(lease, tell, fx_);
  const std::string downgrade = "downgrade " + std::to_string(lease->id);
  EXPECT_EQ(Drain(), (Strings{downgrade, downgrade, downgrade}));
  EXPECT_TRUE(told.empty());
  const auto id = [&](int n) { return "id: " + std::to_string(lease->id + n); };
  Say(id(2) + " downgraded {}");
  Say(id(2) + " downgraded {}");
  Say(id(1) + " refused { reason: REFUSAL_REASON_STORE_UNAVAILABLE }");
  EXPECT_EQ(told, (Strings{"done", "STORE_UNAVAILABLE"}));
  EXPECT_EQ(lease->cause.load(), EndCause::kNotEnded);
  Break();
  EXPECT_EQ(told.back(), "UNREACHABLE");
  EXPECT_EQ(told.size(), 3u);
}

}  // namespace

}  // namespace distlock::internal
