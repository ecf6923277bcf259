// SPDX-License-Identifier: Apache-2.0
//
// Answers and the WAITs behind them, in the order in which a server would answer: what counts, and what is doubted.
#include "store/redis/replica_confirmation.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fake_network.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;

// Keeps what is sent; the test answers in order.
class PlayedSender : public CommandSender {
 public:
  void Send(std::string_view command, Done done) override {
    commands.emplace_back(command);
    waiting_.push_back(std::move(done));
  }
  void Flush() override { ++flushes; }
  size_t waiting() const { return waiting_.size(); }

  void Reply(const std::string& raw) {
    const ReplyPtr reply = Parse(raw);
    Next()({.kind = Answer::Kind::kReply, .reply = reply.get(), .cause = {}});
  }
  void End(Answer::Kind kind) { Next()({.kind = kind, .reply = nullptr, .cause = "the connection ended"}); }

  std::vector<std::string> commands;
  int flushes = 0;

 private:
  Done Next() {
    Done done = std::move(waiting_.front());
    waiting_.pop_front();
    return done;
  }
  std::deque<Done> waiting_;
};

class ReplicaConfirmationTest : public testing::Test {
 protected:
  static StoreOptions Options(int replicas) {
    StoreOptions options;
    options.wait_replicas = replicas;
    return options;
  }

  template <typename Outcome>
  void Answer(core::OpId op, Outcome outcome) {
    confirmation_.OnAnswer({.op = op, .outcome = std::move(outcome)});
  }
  void Acquire() {
    confirmation_.OnSent(core::StoreAcquire{});
    confirmation_.Flush();
  }
  template <typename Outcome>
  const Outcome* Passed(size_t i) const {
    return i < passed_.size() ? std::get_if<Outcome>(&passed_[i].outcome) : nullptr;
  }
  // Two WAITs in a row that come short.
  void LoseReplicas() {
    for (int i = 0; i < 2; ++i) {
      Acquire();
      sender_.Reply(":0\r\n");
    }
  }
  bool refuses() const { return !confirmation_.Refusal(core::StoreAcquire{}).empty(); }

  FakeTimers timers_;
  PlayedSender sender_;
  std::vector<core::StoreReply> passed_;
  ReplicaConfirmation confirmation_{&sender_, timers_, Options(1),
                                    [this](core::StoreReply&& reply) { passed_.push_back(std::move(reply)); }};
};

TEST_F(ReplicaConfirmationTest, AGrantCountsOnceTheReplicasHaveConfirmedIt) {
  Acquire();
  ASSERT_EQ(sender_.commands, std::vector<std::string>{"*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$3\r\n100\r\n"});
  Answer(1, core::AcquireGranted{.token = 7});
  EXPECT_TRUE(passed_.empty()) << "told before it was confirmed";
  sender_.Reply(":1\r\n");
  ASSERT_NE(Passed<core::AcquireGranted>(0), nullptr);
  EXPECT_EQ(Passed<core::AcquireGranted>(0)->token, 7u);
}

TEST_F(ReplicaConfirmationTest, AGrantThatIsNotConfirmedIsUnknown) {
  Acquire();
  Answer(1, core::AcquireGranted{.token = 7});
  sender_.Reply(":0\r\n");
  ASSERT_NE(Passed<core::StoreUnknown>(0), nullptr);
  EXPECT_EQ(Passed<core::StoreUnknown>(0)->cause, "granted, but 0 of 1 replicas confirmed it within 100 ms");
}

// A block that a failover forgets would let a job run a second time.
TEST_F(ReplicaConfirmationTest, AReleaseThatLeavesTheLockBlockedIsConfirmedToo) {
  for (const bool is_repeat : {false, true}) {
    const core::GiveBackDone blocked{.was_holder = !is_repeat, .blocked_for = milliseconds(900), .next = {}};
    confirmation_.OnSent(core::StoreRelease{});
    confirmation_.Flush();
    EXPECT_EQ(sender_.waiting(), 0u) << "most releases promise nothing";
    passed_.clear();
    Answer(1, blocked);
    EXPECT_TRUE(passed_.empty());
    sender_.Reply(":0\r\n");
    ASSERT_NE(Passed<core::StoreUnknown>(0), nullptr);
    EXPECT_EQ(Passed<core::StoreUnknown>(0)->cause, "blocked, but 0 of 1 replicas confirmed it within 100 ms");
    Answer(2, blocked);
    sender_.Reply(":1\r\n");
    ASSERT_NE(Passed<core::GiveBackDone>(1), nullptr);
    EXPECT_EQ(Passed<core::GiveBackDone>(1)->blocked_for, milliseconds(900));
  }
}

TEST_F(ReplicaConfirmationTest, AnUnconfirmedRenewalIsUnansweredAndALostLeaseIsLost) {
  using core::RenewResult;
  Acquire();
  Answer(1, core::RenewDoneBatch{.results = {RenewResult::kRenewed, RenewResult::kGone}});
  sender_.Reply("-UNBLOCKED force unblock from blocking operation\r\n");
  const auto* renewed = Passed<core::RenewDoneBatch>(0);
  ASSERT_NE(renewed, nullptr);
  EXPECT_EQ(renewed->results, (std::vector{RenewResult::kUnanswered, RenewResult::kGone}));
  EXPECT_EQ(renewed->trouble, "no replica was asked: UNBLOCKED force unblock from blocking operation");
}

TEST_F(ReplicaConfirmationTest, AHandOffThatIsNotConfirmedIsLookedAtAgain) {
  Answer(1, core::GiveBackDone{.was_holder = true, .next = {core::HolderView{}}});
  ASSERT_EQ(sender_.waiting(), 1u) << "a release asks once it is known to hand on";
  sender_.Reply(":0\r\n");
  const auto* released = Passed<core::GiveBackDone>(0);
  ASSERT_NE(released, nullptr);
  EXPECT_TRUE(released->was_holder);
  EXPECT_TRUE(released->next.empty());
  EXPECT_TRUE(released->look);
}

TEST_F(ReplicaConfirmationTest, ALookAtTheHoldersIsRepeatedUntilItIsConfirmed) {
  Acquire();
  Answer(1, core::TendDone{.holders = {core::HolderView{}}});
  sender_.Reply(":0\r\n");
  const auto* tended = Passed<core::TendDone>(0);
  ASSERT_NE(tended, nullptr);
  EXPECT_TRUE(tended->holders.empty());
  EXPECT_TRUE(tended->more);
}

TEST_F(ReplicaConfirmationTest, WhatPromisesNothingIsNotKeptButKeepsItsOrder) {
  Answer(1, core::AcquireHeld{});
  EXPECT_EQ(passed_.size(), 1u);
  EXPECT_TRUE(sender_.commands.empty());
  Acquire();
  Answer(2, core::AcquireGranted{.token = 7});
  Answer(3, core::GiveBackDone{.was_waiter = true});
  EXPECT_EQ(passed_.size(), 1u) << "an answer has overtaken another";
  sender_.Reply(":1\r\n");
  ASSERT_EQ(passed_.size(), 3u);
  EXPECT_EQ(passed_[1].op, 2u);
  EXPECT_EQ(passed_[2].op, 3u);
}

TEST_F(ReplicaConfirmationTest, OneWaitCoversOnlyWhatWasAnsweredBeforeIt) {
  Acquire();
  Acquire();
  ASSERT_EQ(sender_.waiting(), 2u);
  Answer(1, core::AcquireGranted{.token = 7});
  sender_.Reply(":1\r\n");
  Answer(2, core::AcquireGranted{.token = 8});
  EXPECT_EQ(passed_.size(), 1u);
  sender_.Reply(":0\r\n");
  ASSERT_EQ(passed_.size(), 2u);
  EXPECT_NE(Passed<core::AcquireGranted>(0), nullptr);
  EXPECT_NE(Passed<core::StoreUnknown>(1), nullptr);
}

TEST_F(ReplicaConfirmationTest, WhatWasSentAgainBehindItsWaitAsksAnew) {
  Acquire();
  sender_.Reply(":1\r\n");
  Answer(1, core::AcquireGranted{.token = 7});
  ASSERT_EQ(sender_.waiting(), 1u);
  EXPECT_TRUE(passed_.empty());
  sender_.Reply(":1\r\n");
  EXPECT_NE(Passed<core::AcquireGranted>(0), nullptr);
}

TEST_F(ReplicaConfirmationTest, AConnectionThatEndsConfirmsNothing) {
  Acquire();
  Answer(1, core::AcquireGranted{.token = 7});
  sender_.End(Answer::Kind::kUnknown);
  EXPECT_NE(Passed<core::StoreUnknown>(0), nullptr);
}

TEST_F(ReplicaConfirmationTest, AfterTwoShortWaitsNothingNewIsAskedForUntilTheReplicasAreBack) {
  Acquire();
  sender_.Reply(":0\r\n");
  EXPECT_FALSE(refuses()) << "one may be chance";
  Acquire();
  sender_.Reply(":0\r\n");
  EXPECT_EQ(confirmation_.Refusal(core::StoreAcquire{}),
            "NOREPLICAS: 0 of 1 replicas confirmed it within 100 ms; nothing is granted until they do");
  EXPECT_EQ(confirmation_.Refusal(core::StoreRenew{}), "");
  EXPECT_EQ(confirmation_.Refusal(core::StoreRelease{}), "");
  timers_.Advance(milliseconds(250));
  ASSERT_EQ(sender_.waiting(), 1u) << "nobody asks whether they are back";
  sender_.Reply(":1\r\n");
  EXPECT_FALSE(refuses());
  timers_.Advance(std::chrono::seconds(5));
  EXPECT_EQ(sender_.waiting(), 0u);
}

TEST_F(ReplicaConfirmationTest, TheProbeGoesOnAcrossALostConnectionAndAnotherServerBeginsAnew) {
  LoseReplicas();
  timers_.Advance(milliseconds(250));
  sender_.End(Answer::Kind::kNotSent);
  EXPECT_TRUE(refuses());
  timers_.Advance(milliseconds(250));
  EXPECT_EQ(sender_.waiting(), 1u);
  confirmation_.OnServer();
  EXPECT_FALSE(refuses());
}

TEST_F(ReplicaConfirmationTest, WhoAsksForAllThatWasSentIsToldHowManyConfirmed) {
  std::vector<int> told;
  const auto tell = [&](int confirmed) { told.push_back(confirmed); };
  confirmation_.Ask(tell);
  confirmation_.Ask(tell);
  sender_.Reply(":2\r\n");
  sender_.End(Answer::Kind::kUnknown);
  EXPECT_EQ(told, (std::vector{2, 0}));
}

TEST(ReplicaConfirmation, WithoutReplicasToAskNothingIsKept) {
  FakeTimers timers;
  PlayedSender sender;
  int passed = 0;
  ReplicaConfirmation confirmation(&sender, timers, StoreOptions{}, [&](core::StoreReply&&) { ++passed; });
  confirmation.OnSent(core::StoreAcquire{});
  confirmation.Flush();
  confirmation.OnAnswer({.op = 1, .outcome = core::AcquireGranted{.token = 7}});
  EXPECT_EQ(passed, 1);
  EXPECT_TRUE(sender.commands.empty());
}

}  // namespace
}  // namespace distlock::store
