// SPDX-License-Identifier: Apache-2.0
//
// max_hold at several servers, each of which counts it from its own vote.
#include <gtest/gtest.h>

#include "ballot_fixture.h"

namespace distlock::store::ballot {
namespace {

// max_hold counts from when its owner was granted it, by another try of the same request.
TEST_F(BallotTest, AHoldThatItsOwnerHadGrowsOlderWhileItIsConfirmed) {
  Wait(1);
  for (NodeIndex node = 0; node < kServers; ++node) {
    Answer(node, Voted{.token = kToken + 1 + node, .since = TimeOf(), .held_for = seconds(10)});
  }
  ASSERT_EQ(CountAsked<ConfirmVote>(), kServers);
  Pass(milliseconds(300));
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Confirmed{});
  const auto* granted = Told<core::AcquireGranted>();
  ASSERT_NE(granted, nullptr);
  EXPECT_GE(granted->held_for, seconds(10)) << "before it was asked for";
}

// By two servers' records its max_hold has passed. The third has confirmed it later, as some earlier answer promised.
// Fails when held_at_least is the broker's own count (held_for): what a confirmation promised for longer would be lost.
TEST_F(BallotTest, ARepeatIsToldWhatAnEarlierAnswerMayHavePromised) {
  Pass(seconds(20));
  Step(core::StoreAcquire{
      .op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(10), .max_hold = seconds(10), .wait = true});
  for (NodeIndex node = 0; node < kServers; ++node) {
    Answer(node, Voted{.token = kToken,
                       .since = TimeOf(),
                       .held_for = seconds(10),
                       .hold_left = node == 0 ? milliseconds(800) : milliseconds(0)});
  }
  const auto* granted = Told<core::AcquireGranted>();
  ASSERT_NE(granted, nullptr);
  EXPECT_GE(granted->held_for, seconds(10) - milliseconds(1)) << "it is over at q of the servers";
  EXPECT_GE(granted->held_at_least, seconds(10) - milliseconds(800)) << "it may be promised for as long as one says";
  EXPECT_LT(granted->held_at_least, seconds(10) - milliseconds(700));
}

TEST_F(BallotTest, AConfirmationPromisesAnAnswerWhatMaxHoldHasLeft) {
  Step(core::StoreAcquire{
      .op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(10), .max_hold = seconds(10), .wait = true});
  for (NodeIndex node = 0; node < kServers; ++node) {
    Answer(node, Voted{.token = kToken + node, .since = TimeOf(), .held_for = seconds(7), .hold_left = seconds(3)});
  }
  ASSERT_TRUE(IsAsked<ConfirmVote>(0));
  const Duration promised = std::get<ConfirmVote>(sent_[0].front().command).promised;
  EXPECT_LE(promised, seconds(3));
  EXPECT_GT(promised, milliseconds(2900));
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Confirmed{});
  const auto* granted = Told<core::AcquireGranted>();
  ASSERT_NE(granted, nullptr);
  EXPECT_LE(seconds(10) - granted->held_for, seconds(3));
}

// A waiter's votes may be old when the last of them makes it the holder. The core believes a notice for a whole ttl,
// and no longer than max_hold.
TEST_F(BallotTest, AConfirmationPromisesANoticeItsTtlOrMaxHold) {
  Step(core::StoreAcquire{
      .op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(10), .max_hold = seconds(6), .wait = true});
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(2));
  Notice(0, 1, kToken);
  Pass(seconds(4));
  Notice(1, 1, kToken + 4'000'000);
  ASSERT_TRUE(CountAsked<ConfirmVote>() > 0);
  for (const auto& server : sent_) {
    for (const SendTo& sent : server) {
      const auto* confirm = std::get_if<ConfirmVote>(&sent.command);
      if (confirm != nullptr) {
        EXPECT_EQ(confirm->promised, seconds(6)) << "a renewal through another broker keeps it no longer";
      }
    }
  }
}

// A server that joined the grant late, or lost it, does not end a renewal that the others have made.
TEST_F(BallotTest, ARenewalIsCutByTheServersThatMadeIt) {
  Step(core::StoreRenew{.op = 2, .items = {{TheLock(), OwnerOf(1), kToken, seconds(30), /*ours=*/false}}});
  const auto answer = [](core::RenewResult result, Duration left) {
    return core::RenewDoneBatch{.results = {result}, .hold_left = {left}};
  };
  Answer(2, answer(core::RenewResult::kGone, Duration::zero()));
  Answer(0, answer(core::RenewResult::kRenewed, seconds(5)));
  Answer(1, answer(core::RenewResult::kRenewed, seconds(4)));
  const auto* done = Told<core::RenewDoneBatch>();
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->hold_left, std::vector<Duration>{seconds(4)});
}

// Each server's max_hold counts from its own vote, and a confirmation has made one of them longer.
TEST_F(BallotTest, AnAdoptionGoesByTheServerWhereTheHoldEndsLast) {
  Step(core::StoreAdopt{.op = 1, .name = TheLock(), .from = OwnerOf(1), .token = kToken, .owner = OwnerOf(2)});
  const auto adopted = [](Duration held_for, Duration max_hold) {
    return core::AdoptDone{
        .result = core::AdoptDone::Result::kAdopted, .held_for = held_for, .ttl = seconds(30), .max_hold = max_hold};
  };
  Answer(0, adopted(seconds(12), seconds(20)));
  Answer(1, adopted(milliseconds(9'900), seconds(10)));
  const auto* done = Told<core::AdoptDone>();
  ASSERT_NE(done, nullptr);
  EXPECT_EQ(done->max_hold, seconds(10));
  EXPECT_EQ(done->held_for, seconds(2));
}

// One server's clock was ahead when it gave its vote, and has been put right since.
// Fails when stamps of clocks that were set since count.
TEST_F(BallotTest, AStampOfAClockThatWasWrongMakesNoHoldLonger) {
  const int64_t given = TimeOf().us - 8'000'000;
  const auto token = static_cast<uint64_t>(given);
  const auto adopted = [&](Duration held_for) {
    return core::AdoptDone{.result = core::AdoptDone::Result::kAdopted,
                           .since = {TimeOf().us - held_for / std::chrono::microseconds(1)},
                           .held_for = held_for,
                           .ttl = seconds(30),
                           .max_hold = seconds(10)};
  };
  Step(core::StoreAdopt{.op = 1, .name = TheLock(), .from = OwnerOf(1), .token = token, .owner = OwnerOf(2)});
  Answer(0, adopted(seconds(8)));
  Answer(1, adopted(seconds(5)));
  const auto* done = Told<core::AdoptDone>();
  ASSERT_NE(done, nullptr);
  EXPECT_GE(done->held_for, seconds(8) - milliseconds(1));
  EXPECT_LE(done->held_for, seconds(8) + milliseconds(20));
}

TEST_F(BallotTest, ARepeatIsNotPromisedLongerForAStampOfAClockThatWasWrong) {
  const int64_t given = TimeOf().us - 8'000'000;
  Step(
      core::StoreAcquire{.op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(10), .max_hold = seconds(10)});
  for (NodeIndex node = 0; node < kServers; ++node) {
    const Duration held_for = seconds(node == 0 ? 8 : 3);
    Answer(node, Voted{.token = static_cast<uint64_t>(given),
                       .since = {TimeOf().us - held_for / std::chrono::microseconds(1)},
                       .held_for = held_for,
                       .hold_left = seconds(10) - held_for});
  }
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Confirmed{});
  const auto* granted = Told<core::AcquireGranted>();
  ASSERT_NE(granted, nullptr);
  EXPECT_GE(granted->held_for, seconds(8) - milliseconds(1));
  EXPECT_LE(granted->held_at_least, seconds(3) + milliseconds(1)) << "it may have been promised for that long";
}

// A hold whose bound ends it at one server a little earlier than at the others does not begin anew there.
TEST_F(BallotTest, AServerThatJoinsAGrantEndsItByItsMaxHold) {
  const core::StoreRenew renew{.op = 2, .items = {{TheLock(), OwnerOf(1), kToken, seconds(30), /*ours=*/false}}};
  core::RenewDoneBatch renewed{.results = {core::RenewResult::kRenewed}};
  core::RenewDoneBatch gone{.results = {core::RenewResult::kGone}};
  Step(
      core::StoreAcquire{.op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(30), .max_hold = seconds(10)});
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  Pass(seconds(9));
  Step(renew);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, node == 2 ? gone : renewed);
  ASSERT_TRUE(IsAsked<JoinGrant>(2));
  const Spec joined = std::get<JoinGrant>(sent_[2].front().command).spec;
  EXPECT_LE(joined.max_hold, seconds(1));
  EXPECT_GT(joined.max_hold, milliseconds(900));
  EXPECT_LE(joined.ttl, joined.max_hold);
  Answer(2, Joined{});

  Pass(seconds(1));
  Step(renew);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, node == 2 ? gone : renewed);
  EXPECT_EQ(CountAsked<JoinGrant>(), 0u);
}

}  // namespace
}  // namespace distlock::store::ballot
