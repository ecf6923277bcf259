// SPDX-License-Identifier: Apache-2.0
//
// The ballot's commands may come late: each names what it means, and nothing that comes later.
#include <utility>

#include "ballot_fixture.h"

namespace distlock::store::ballot {
namespace {

// A command may come late, when the same owner has the lock by a later request.
TEST_F(BallotTest, WhatATryOwesNamesWhatItHasAskedForAndNothingLater) {
  const core::StoreAcquire once{.op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(30)};
  Step(once);
  const Marks first = std::get<AskVote>(sent_[0].front().command).marks;
  Answer(0, Voted{kToken, TimeOf(), {}});
  sent_[1].clear();
  sent_[2].clear();
  Pass(seconds(1));
  ASSERT_NE(Told<core::StoreFailed>(), nullptr) << "two servers are silent";
  for (NodeIndex node = 0; node < kServers; ++node) {
    ASSERT_TRUE(IsAsked<ReleaseNamed>(node));
    const auto& owed = std::get<ReleaseNamed>(sent_[node].front().command);
    EXPECT_EQ(std::pair(owed.marks.first, owed.marks.last), std::pair(first.first, first.last));
    EXPECT_EQ(owed.token, 0u);
    Answer(node, GaveBack{});
  }
  Step(once);
  EXPECT_GT(std::get<AskVote>(sent_[0].front().command).marks.first, first.last);
}

// The later one has not come to server 2 yet. Were the vote there given back, others would get the lock, whose client
// believes in it yet.
TEST_F(BallotTest, WhatALateTryOfAnAdoptionHasGotIsLeftToTheLaterOne) {
  using Result = core::AdoptDone::Result;
  for (const Result other : {Result::kLater, Result::kGone}) {
    told_.clear();
    Step(core::StoreAdopt{.op = 1,
                          .name = TheLock(),
                          .from = OwnerOf(5),
                          .token = kToken,
                          .owner = OwnerOf(6),
                          .run_before = now_ + seconds(2),
                          .info = {}});
    Answer(0, core::AdoptDone{.result = Result::kGone});
    Answer(2, core::AdoptDone{.result = Result::kAdopted, .ttl = seconds(15)});
    Answer(1, core::AdoptDone{.result = other});
    Pass(milliseconds(10));
    ASSERT_NE(Told<core::AdoptDone>(), nullptr);
    EXPECT_EQ(Told<core::AdoptDone>()->result, other);
    EXPECT_EQ(CountAsked<ReleaseNamed>(), other == Result::kLater ? 0 : kServers) << "only of what nobody has any more";
  }
}

// A server whose clock is ahead tells of a waiter there, and the candidate goes behind that one.
TEST_F(BallotTest, ARequestIsNumberedHoweverFarThePlaceOfTheOneBeforeWas) {
  Wait(2);
  const AskVote first = std::get<AskVote>(sent_[0].front().command);
  NotVoted ahead = Behind(1);
  ahead.place = first.spec.place;
  ahead.tail = first.spec.place + Place{1'800'000'000};
  Answer(0, ahead);
  ASSERT_FALSE(sent_[0].empty());
  EXPECT_EQ(std::get<AskVote>(sent_[0].back().command).spec.place, ahead.tail + 1);
  // The answers to the first question know the first place: nobody goes back to it.
  NotVoted before = Behind(1);
  before.place = first.spec.place;
  Answer(1, before);
  EXPECT_EQ(std::get<AskVote>(sent_[1].back().command).spec.place, ahead.tail + 1);
  EXPECT_EQ(sent_[1].size(), 1u);
  for (auto& sent : sent_) sent.clear();

  Step(core::StoreWithdraw{.op = 9, .name = TheLock(), .owner = OwnerOf(2)});
  ASSERT_TRUE(IsAsked<ReleaseNamed>(0));
  const Marks owed = std::get<ReleaseNamed>(sent_[0].front().command).marks;
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, GaveBack{});
  Wait(2);
  ASSERT_TRUE(IsAsked<AskVote>(0));
  EXPECT_GT(std::get<AskVote>(sent_[0].front().command).marks.first, owed.last);
}

// Fails when what is owed names no token: it would take what another broker was granted for the same request.
TEST_F(BallotTest, AVoteWhoseOwnerIsNoCandidateIsReleasedByItsToken) {
  Notice(0, 1, kToken);
  ASSERT_TRUE(IsAsked<ReleaseNamed>(0));
  EXPECT_EQ(std::get<ReleaseNamed>(sent_[0].front().command).token, kToken);
  EXPECT_TRUE(std::get<ReleaseNamed>(sent_[0].front().command).marks.empty());
  Notice(1, core::kRepeatableMark, kToken);
  EXPECT_TRUE(sent_[1].empty()) << "by now it may be another broker's";
}

// The connection broke: the yield may run yet, whatever the server shows meanwhile.
// Fails when such a vote counts under the token of the yield.
TEST_F(BallotTest, AVoteThatMayStillBeYieldedCountsOnlyUnderALaterToken) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(3));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  Answer(1, core::StoreUnknown{"reset"});
  for (int i = 0; i < 1000 && CountAsked<AskVote>() == 0; ++i) Pass(milliseconds(1));
  Answer(0, Voted{kToken, TimeOf(), {}});
  Answer(1, Voted{kToken, TimeOf(), {}});
  EXPECT_EQ(Granted(), nullptr);
  Pass(seconds(1));
  ASSERT_TRUE(IsAsked<ConfirmVote>(1));
  EXPECT_GT(std::get<ConfirmVote>(sent_[1].front().command).token, kToken);
}

// One release gives all servers' votes one token. The yield names it, and stands still on its way.
// Fails when votes are confirmed under the token of a yield that may still come: the yield would take one away.
TEST_F(BallotTest, NoGrantHasTheTokenOfAYieldThatMayStillCome) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(3));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  const SendTo yield = std::exchange(sent_[1], {}).front();
  Notice(0, 2, kToken);
  Notice(2, 2, kToken);
  EXPECT_EQ(Granted(), nullptr);
  for (const NodeIndex node : {0, 2}) {
    ASSERT_TRUE(IsAsked<ConfirmVote>(node));
    EXPECT_GT(std::get<ConfirmVote>(sent_[node].front().command).token, kToken);
    Answer(node, Confirmed{});
  }
  ASSERT_NE(Granted(), nullptr);
  EXPECT_GT(Granted()->token, kToken);
  // The yield does not name the grant that the third server joins now.
  Pass(seconds(1));
  ASSERT_TRUE(IsAsked<JoinGrant>(1));
  EXPECT_GT(std::get<JoinGrant>(sent_[1].front().command).token, kToken);
}

// A later yield of the same server is answered, and says nothing of the earlier one.
TEST_F(BallotTest, AnAnsweredYieldDoesNotHideOneWithoutAnAnswer) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(3));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  Answer(1, core::StoreUnknown{"reset"});
  for (int i = 0; i < 1000 && CountAsked<AskVote>() == 0; ++i) Pass(milliseconds(1));
  Answer(0, Behind(1));
  Answer(1, Voted{kToken + 5, TimeOf(), {}});
  Answer(2, Behind(3));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  Answer(1, GaveBack{.was_holder = true});
  Notice(0, 2, kToken);
  Notice(2, 2, kToken);
  EXPECT_EQ(Granted(), nullptr);
}

TEST_F(BallotTest, AYieldThatWasAnsweredBoundsNoToken) {
  for (const bool had : {true, false}) {
    told_.clear();
    Wait(2);
    Answer(0, Behind(1));
    Answer(1, Voted{kToken, TimeOf(), {}});
    Answer(2, Behind(3));
    ASSERT_TRUE(IsAsked<YieldVote>(1));
    Answer(1, had ? Outcome{GaveBack{.was_holder = true}} : Outcome{NotHeld{}});
    Notice(0, 2, kToken);
    Notice(2, 2, kToken);
    ASSERT_NE(Granted(), nullptr);
    EXPECT_EQ(Granted()->token, kToken);
    Step(core::StoreRelease{.op = 9, .name = TheLock(), .owner = OwnerOf(2), .token = kToken});
    for (NodeIndex node = 0; node < kServers; ++node) {
      while (!IsAsked<ReleaseNamed>(node)) sent_[node].pop_front();
      Answer(node, GaveBack{.was_holder = true});
    }
  }
}

// A request that may be repeated, its client has been told of the grant, and it is asked for again.
core::StoreAcquire Repeated() {
  return {.op = 1, .name = TheLock(), .owner = OwnerOf(core::kRepeatableMark), .ttl = seconds(30), .wait = true};
}

// Its client may believe: one server is silent, and another one has an earlier waiter's vote.
// Fails when a repeat yields votes under the token that its client was told.
TEST_F(BallotTest, ARepeatGivesBackNoVoteOfAGrantThatMayBeBelievedIn) {
  Step(Repeated());
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  Step(Repeated());
  Answer(0, Behind(3));
  Answer(2, Voted{kToken, TimeOf(), {}});
  sent_[1].clear();
  Pass(seconds(1));
  EXPECT_EQ(CountAsked<YieldVote>(), 0u);
  EXPECT_EQ(CountAsked<AskVote>(), 0u) << "a question would renew the vote, and keep others from it";
  Pass(seconds(31));
  EXPECT_GE(CountAsked<AskVote>(), 1u) << "it has ended, or its holder renews it";
}

// More servers than a quorum leaves over have somebody else: nobody can believe any more, and others need the vote.
// Fails when the token is kept although nobody can believe: each question would renew the vote.
TEST_F(BallotTest, ARepeatGivesBackTheLastVoteOfAGrantThatIsOver) {
  Step(Repeated());
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  Step(Repeated());
  for (const NodeIndex node : {0, 1}) Answer(node, Behind(3));
  Answer(2, Voted{kToken, TimeOf(), {}});
  Pass(seconds(1));
  EXPECT_EQ(CountAsked<YieldVote>(), 1u);
}

// The caller of the downgrade gave it up, released, and has asked anew under the same owner.
// Fails when the answer is matched by owner alone: the owner's next grant would become SHARED.
TEST_F(BallotTest, ADowngradeOfAGrantThatIsOverLeavesTheNextOneAlone) {
  using Result = core::DowngradeDone::Result;
  const core::OwnerId owner = Repeated().owner;
  Step(Repeated());
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  Step(core::StoreDowngrade{.op = 7, .name = TheLock(), .owner = owner, .token = kToken, .info = {}});
  Answer(0, core::DowngradeDone{.result = Result::kDowngraded});
  const SendTo late = std::exchange(sent_[1], {}).front();
  Answer(2, core::StoreUnknown{"reset"});
  Step(core::StoreRelease{.op = 8, .name = TheLock(), .owner = owner, .token = kToken});
  for (const NodeIndex node : {0, 2}) Answer(node, GaveBack{.was_holder = true});
  sent_[1].clear();
  Step(Repeated());
  for (const NodeIndex node : {0, 2}) Answer(node, Voted{kToken + 5, TimeOf(), {}});
  Step(NodeReply{late.op, core::DowngradeDone{.result = Result::kDowngraded}, TimeOf()});
  Pass(milliseconds(50));
  for (const auto& sent : sent_) {
    for (const SendTo& one : sent) {
      if (const auto* join = std::get_if<JoinGrant>(&one.command)) {
        EXPECT_EQ(join->spec.want.mode, core::Mode::kExclusive);
      }
    }
  }
}

// The vote ended before the server said that its owner waits; the notice of it comes later than that.
// Fails when a vote's stamp is not compared with when the server said that the owner waits.
TEST_F(BallotTest, ALateNoticeOfAVoteThatHasEndedIsNoNewVote) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  const core::StoreTime given = TimeOf();
  Pass(seconds(31));
  while (!sent_[0].empty() || !sent_[1].empty() || !sent_[2].empty()) {
    for (NodeIndex node = 0; node < kServers; ++node) {
      if (!sent_[node].empty()) Answer(node, Behind(3));
    }
  }
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(3));
  for (const NodeIndex node : {0, 1}) {
    core::GrantNotice late{.name = TheLock(), .owner = OwnerOf(2), .token = kToken, .since = given, .ttl = seconds(30)};
    Step(NodeNotice{node, std::move(late), {}});
  }
  EXPECT_EQ(Granted(), nullptr);
  EXPECT_EQ(Told<core::AcquireGranted>(), nullptr);
}

// A lease is known by its token: a second one would have the broker end its own lease as another's.
TEST_F(BallotTest, AGrantThatIsAskedForAgainKeepsItsTokenBesideALaterVote) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Notice(0, 2, kToken);
  Notice(1, 2, kToken);
  ASSERT_NE(Granted(), nullptr);
  Wait(2);
  ASSERT_EQ(CountAsked<AskVote>(), kServers);
  Answer(2, Voted{kToken + 5, TimeOf(), {}});
  Pass(seconds(1));
  ASSERT_EQ(CountAsked<ConfirmVote>(), kServers);
  for (NodeIndex node = 0; node < kServers; ++node) {
    while (!IsAsked<ConfirmVote>(node)) sent_[node].pop_front();
    EXPECT_EQ(std::get<ConfirmVote>(sent_[node].front().command).token, kToken);
  }
  Answer(2, TooLow{kToken + 5});
  EXPECT_EQ(CountAsked<ConfirmVote>(), 2u) << "the later vote raises nothing";
  for (const NodeIndex node : {0, 1}) Answer(node, Confirmed{});
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  EXPECT_EQ(Told<core::AcquireGranted>()->token, kToken);
}

// The other one may hold the lock, or give it back.
TEST_F(BallotTest, WhatAnotherCandidateOfTheOwnerHasCountsOnceItWasAskedForAsAGrant) {
  Step(core::StoreAcquire{.op = 1, .name = TheLock(), .owner = OwnerOf(core::kRepeatableMark), .ttl = seconds(30)});
  Voted found{kToken, TimeOf(), {}};
  found.is_found = true;
  Answer(0, found);
  EXPECT_EQ(CountAsked<AskVote>(), 2u);
  Answer(1, found);
  EXPECT_EQ(Told<core::AcquireGranted>(), nullptr);
  for (const NodeIndex node : {0, 1}) {
    ASSERT_TRUE(IsAsked<AskVote>(node));
    EXPECT_EQ(std::get<AskVote>(sent_[node].front().command).found, kToken);
    Answer(node, Voted{kToken, TimeOf(), {}});
  }
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  EXPECT_EQ(Told<core::AcquireGranted>()->token, kToken);
}

}  // namespace
}  // namespace distlock::store::ballot
