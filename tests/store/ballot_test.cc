// SPDX-License-Identifier: Apache-2.0
//
// The ballot between a core and three servers that answer when, and what, the test says.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ballot_fixture.h"

namespace distlock::store::ballot {
namespace {

// The holder's release has reached the second server, and the third one's answer is from before it did there, too.
TEST_F(BallotTest, AVoteThatComesMeanwhileIsNotYieldedToAHolderThatMayHaveGone) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Behind(1));
  ASSERT_NE(Told<core::AcquireQueued>(), nullptr);
  Notice(1, 2, kToken);
  Answer(2, Behind(1));
  EXPECT_EQ(CountAsked<YieldVote>(), 0u);
  Notice(2, 2, kToken);
  ASSERT_NE(Granted(), nullptr);
  EXPECT_EQ(Granted()->token, kToken);
}

// Else two waiters that have split the votes would keep them.
TEST_F(BallotTest, SuchAVoteIsYieldedOnceARoundThatBeganLaterShowsTheHolder) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Behind(1));
  Notice(1, 2, kToken);
  Answer(2, Behind(1));
  Pass(milliseconds(300));
  Answer(0, Behind(1));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(1));
  EXPECT_EQ(CountAsked<YieldVote>(), 1u);
}

// A vote is of no use while another has enough of them: readers would hand it round.
TEST_F(BallotTest, AVoteIsHandedOnOnlyIfNobodyHasAQuorum) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(1));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  EXPECT_FALSE(std::get<YieldVote>(sent_[1].front().command).hands_on);
}

TEST_F(BallotTest, NorIsItWhileALockDelayRunsAtMostServers) {
  Wait(2);
  Answer(0, Behind(0));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(0));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  EXPECT_FALSE(std::get<YieldVote>(sent_[1].front().command).hands_on);
}

// Two readers that find servers free beside a holder give each other their votes with each question.
TEST_F(BallotTest, WhoYieldsToTheSameHolderAgainAsksLaterEachTime) {
  Wait(2);
  std::vector<Duration> pauses;
  for (uint64_t token = kToken; token < kToken + 7; ++token) {
    Answer(0, Behind(1));
    Answer(1, Voted{token, TimeOf(), {}});
    Answer(2, Behind(1));
    ASSERT_TRUE(IsAsked<YieldVote>(1));
    Answer(1, GaveBack{});
    Notice(1, 2, token + 1);
    const Instant before = now_;
    while (CountAsked<AskVote>() == 0 && now_ - before < seconds(1)) Pass(microseconds(100));
    pauses.push_back(now_ - before);
    ASSERT_EQ(CountAsked<AskVote>(), kServers);
  }
  EXPECT_LT(pauses.front(), milliseconds(10));
  EXPECT_GT(pauses.back(), 8 * pauses.front());
}

TEST_F(BallotTest, AVoteIsHandedOnToAnEarlierWaiterWithFewVotes) {
  Wait(2);
  Answer(0, Behind(1));
  Answer(1, Voted{kToken, TimeOf(), {}});
  Answer(2, Behind(3));
  ASSERT_TRUE(IsAsked<YieldVote>(1));
  EXPECT_TRUE(std::get<YieldVote>(sent_[1].front().command).hands_on);
}

// The holder's key ended early there, and it may believe: nobody has looked at that clock since.
TEST_F(BallotTest, AVoteByANoticeOfAClockThatWasSetForwardDoesNotCount) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Notice(1, 2, kToken);
  Notice(2, 2, kToken, milliseconds(100));
  EXPECT_EQ(Granted(), nullptr);
  EXPECT_EQ(CountAsked<ConfirmVote>(), 0u);
  EXPECT_NE(ballot_.nodes().WhyNot(2, now_), "");
  Notice(0, 2, kToken);
  EXPECT_NE(Granted(), nullptr) << "the other servers suffice";
}

TEST_F(BallotTest, AVoteByANoticeOfAClockThatIsALittleAheadCounts) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Notice(1, 2, kToken);
  Notice(2, 2, kToken, ServerClock::kTolerance);
  EXPECT_NE(Granted(), nullptr);
}

TEST_F(BallotTest, AClockThatWasSetIsComparedWithTheOthersAtOnce) {
  ServerClock clock(500);
  clock.Learn(now_, now_, {TimeOf().us + 5'000'000});
  Step(NodeClockStep{0, seconds(5), clock});
  EXPECT_EQ(ballot_.nodes().WhyNot(0, now_), "its clock was set");
  EXPECT_TRUE(ballot_.nodes().Skew(0, now_).value() > seconds(4));
  Pass(Config{}.longest_ttl + seconds(1));
  EXPECT_TRUE(ballot_.nodes().SuspectFor(0, now_) == Duration::zero());
  EXPECT_NE(ballot_.nodes().WhyNot(0, now_).find("ahead of the others'"), std::string::npos);
}

TEST_F(BallotTest, ServersThatRefuseToConfirmAreAskedAgainOnlyAfterAPause) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Notice(1, 2, kToken);
  Notice(2, 2, kToken + 1);
  ASSERT_EQ(CountAsked<ConfirmVote>(), 2u);
  Answer(1, core::StoreFailed{core::FailureKind::kUnavailable, "MISCONF"});
  Answer(2, core::StoreFailed{core::FailureKind::kUnavailable, "MISCONF"});
  EXPECT_EQ(CountAsked<ConfirmVote>(), 0u);
  Pass(milliseconds(300));
  EXPECT_EQ(CountAsked<AskVote>(), 3u);
  Answer(1, Voted{kToken, TimeOf(), {}});
  EXPECT_EQ(CountAsked<ConfirmVote>(), 2u);
}

TEST_F(BallotTest, ATendShowsTheTokenThatWasGranted) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Notice(1, 2, kToken);
  Notice(2, 2, kToken);
  ASSERT_NE(Granted(), nullptr);
  Step(core::StoreTend{.op = 7, .name = TheLock(), .asked = {OwnerOf(2)}});
  for (NodeIndex node = 0; node < kServers; ++node) {
    core::TendDone shown;
    shown.holders = {Vote(2, node == 0 ? kToken + 5 : kToken)};
    while (!IsAsked<Plain>(node)) Answer(node, core::StoreUnknown{});
    Answer(node, shown);
  }
  const auto* tended = Told<core::TendDone>();
  ASSERT_NE(tended, nullptr);
  ASSERT_EQ(tended->holders.size(), 1u);
  EXPECT_EQ(tended->holders[0].token, kToken);
  EXPECT_EQ(tended->holders[0].since, SinceOf(kToken));
}

// The servers are free again milliseconds apart, as after a block. The first of them votes at once.
TEST_F(BallotTest, AVoteForAWaiterOfThisBrokerPutsOffNoLook) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Step(core::StoreTend{.op = 7, .name = TheLock(), .asked = {OwnerOf(2)}});
  core::TendDone blocked;
  blocked.holders = {{.token = kToken - 1}};
  blocked.left = milliseconds(40);
  core::TendDone voted;
  voted.holders = {Vote(2, kToken)};
  voted.left = seconds(30);
  Answer(0, blocked);
  Answer(1, voted);
  Pass(milliseconds(500));
  const auto* tended = Told<core::TendDone>();
  ASSERT_NE(tended, nullptr);
  EXPECT_EQ(tended->left, milliseconds(40)) << "the third server is silent";
}

// One server has what an adoption left there; the others are free soon.
TEST_F(BallotTest, AServerThatAnswersLastBringsTheNextLookForward) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Step(core::StoreTend{.op = 7, .name = TheLock(), .asked = {OwnerOf(2)}});
  const auto held_for = [](Duration left) {
    core::TendDone held;
    held.holders = {{.owner = OwnerOf(1), .token = kToken - 1}};
    held.left = left;
    return held;
  };
  Answer(0, held_for(seconds(2)));
  Answer(1, held_for(milliseconds(40)));
  Answer(2, held_for(milliseconds(30)));
  const auto* tended = Told<core::TendDone>();
  ASSERT_NE(tended, nullptr);
  EXPECT_EQ(tended->left, milliseconds(40));
}

TEST_F(BallotTest, RoundsAreCountedByKind) {
  using Rounds = std::array<uint64_t, kQuorumRounds>;  // votes, confirmations, yields, joins
  Wait(1);
  for (NodeIndex node = 0; node < kServers; ++node) {
    Answer(node, Voted{.token = kToken, .since = TimeOf(), .held_for = {}});
  }
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  Pass(seconds(1));
  EXPECT_EQ(ballot_.rounds(), (Rounds{1, 0, 0, 0})) << "nobody else wants it, and all servers have voted";

  Step(core::StoreRelease{.op = 2, .name = TheLock(), .owner = OwnerOf(1), .token = kToken});
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, GaveBack{.was_holder = true});
  Wait(3);
  Answer(0, Voted{.token = kToken + 1, .since = TimeOf(), .held_for = {}});
  Answer(1, Voted{.token = kToken + 2, .since = TimeOf(), .held_for = {}});
  Answer(2, Voted{.token = kToken + 3, .since = TimeOf(), .held_for = {}});
  EXPECT_EQ(ballot_.rounds(), (Rounds{2, 1, 0, 0})) << "several tokens: the greatest is confirmed";
}

TEST_F(BallotTest, ARefusalSaysWhatTheServersSaid) {
  Step(core::StoreAcquire{.op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(30)});
  for (NodeIndex node = 0; node < kServers; ++node) {
    Answer(node, core::StoreFailed{core::FailureKind::kUnavailable, node == 0 ? "MISCONF" : "NOREPLICAS"});
  }
  const auto* failed = Told<core::StoreFailed>();
  ASSERT_NE(failed, nullptr);
  EXPECT_NE(failed->cause.find("1 refuses: MISCONF; 2 refuse: NOREPLICAS"), std::string::npos) << failed->cause;
}

TEST(MergeViews, ShowTheTokenThatMostServersHave) {
  const auto shown = [](const std::vector<uint64_t>& tokens) {
    std::vector<core::LockView> views;
    for (const uint64_t token : tokens) {
      core::LockView& view = views.emplace_back();
      view.holders.push_back({.owner = OwnerOf(1), .token = token});
      view.holder_count = 1;
    }
    return MergeViews(std::move(views), kServers).holders.at(0).token;
  };
  EXPECT_EQ(shown({kToken, kToken + 5, kToken}), kToken);
  EXPECT_EQ(shown({kToken + 5, kToken, kToken + 5}), kToken + 5);
  EXPECT_EQ(shown({kToken, kToken + 5}), kToken + 5) << "the later one: it was confirmed";
}

// Another broker has the place by now, and one server has not heard of it.
TEST_F(BallotTest, APlaceThatMostServersDoNotKnowWasNone) {
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Behind(1));
  Step(core::StoreWithdraw{.op = 7, .name = TheLock(), .owner = OwnerOf(2), .keep_grant = true});
  Answer(0, GaveBack{.was_waiter = true});
  EXPECT_EQ(Told<core::GiveBackDone>(), nullptr);
  Answer(1, GaveBack{});
  EXPECT_EQ(Told<core::GiveBackDone>(), nullptr) << "the third decides";
  Answer(2, GaveBack{});
  ASSERT_NE(Told<core::GiveBackDone>(), nullptr);
  EXPECT_FALSE(Told<core::GiveBackDone>()->was_waiter);
}

// Fails when a renewal joins servers although most of them have lost the grant: one that is over would come back.
TEST_F(BallotTest, AGrantThatMostServersHaveLostJoinsNoServerAgain) {
  Step(core::StoreAcquire{.op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(30)});
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  Step(core::StoreRenew{.op = 2, .items = {{TheLock(), OwnerOf(1), kToken, seconds(30)}}});
  core::RenewDoneBatch gone;
  gone.results = {core::RenewResult::kGone};
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, gone);
  ASSERT_NE(Told<core::RenewDoneBatch>(), nullptr);
  EXPECT_EQ(Told<core::RenewDoneBatch>()->results, gone.results);
  Step(NodeDown{0, "restarted"});
  ServerClock clock(500);
  clock.Learn(now_, now_, TimeOf());
  Step(NodeUp{0, true, clock});
  Pass(seconds(1));
  EXPECT_EQ(CountAsked<JoinGrant>(), 0u);
}

// Another candidate had that vote, sees who has the lock, and gives it back.
TEST_F(BallotTest, AServerWhoseVoteAnotherHadIsAskedToJoinAgainForAWhile) {
  Step(core::StoreAcquire{.op = 1, .name = TheLock(), .owner = OwnerOf(1), .ttl = seconds(30)});
  Answer(0, Voted{kToken, TimeOf(), {}});
  Answer(1, Voted{kToken, TimeOf(), {}});
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  Answer(2, Behind(3));
  int joins = 0;
  for (int i = 0; i < 5000; ++i) {
    Pass(milliseconds(1));
    if (!IsAsked<JoinGrant>(2)) continue;
    ++joins;
    Answer(2, Conflict{});
  }
  EXPECT_GE(joins, 5);
  EXPECT_LE(joins, 12) << "then its renewals ask";
  Step(core::StoreRenew{.op = 2, .items = {{TheLock(), OwnerOf(1), kToken, seconds(30)}}});
  core::RenewDoneBatch renewed{.results = {core::RenewResult::kRenewed}};
  core::RenewDoneBatch gone{.results = {core::RenewResult::kGone}};
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, node == 2 ? gone : renewed);
  ASSERT_TRUE(IsAsked<JoinGrant>(2));
  Answer(2, Conflict{});
  Pass(milliseconds(10));
  ASSERT_TRUE(IsAsked<JoinGrant>(2));
  Answer(2, Joined{});
  Pass(seconds(1));
  EXPECT_EQ(CountAsked<JoinGrant>(), 0u);
}

// Readers are to get the votes of all servers.
// Fails when a server without an answer is not owed the downgrade: it would keep the writer's vote beside readers.
TEST_F(BallotTest, AServerThatMissedADowngradeJoinsTheGrantAsItIsNow) {
  using Result = core::DowngradeDone::Result;
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  ASSERT_NE(Told<core::AcquireGranted>(), nullptr);
  Step(core::StoreDowngrade{.op = 7, .name = TheLock(), .owner = OwnerOf(2), .token = kToken, .info = {}});
  for (const NodeIndex node : {0, 1}) Answer(node, core::DowngradeDone{.result = Result::kDowngraded});
  ASSERT_NE(Told<core::DowngradeDone>(), nullptr);
  Answer(2, core::StoreUnknown{"reset"});
  Pass(milliseconds(500));
  ASSERT_TRUE(IsAsked<JoinGrant>(2));
  EXPECT_EQ(std::get<JoinGrant>(sent_[2].front().command).spec.want.mode, core::Mode::kShared);
  EXPECT_EQ(CountAsked<JoinGrant>(), 1u);
  Answer(2, Joined{});
  Pass(seconds(1));
  EXPECT_EQ(CountAsked<JoinGrant>(), 0u);
}

TEST_F(BallotTest, AServerThatDowngradesLastIsAskedForNothingMore) {
  using Result = core::DowngradeDone::Result;
  Wait(2);
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, Voted{kToken, TimeOf(), {}});
  Step(core::StoreDowngrade{.op = 7, .name = TheLock(), .owner = OwnerOf(2), .token = kToken, .info = {}});
  for (NodeIndex node = 0; node < kServers; ++node) Answer(node, core::DowngradeDone{.result = Result::kDowngraded});
  Pass(seconds(1));
  EXPECT_EQ(CountAsked<JoinGrant>(), 0u);
}

TEST_F(BallotTest, AForceGoesOnPastAServerThatIsSilent) {
  using Result = core::ForceDone::Result;
  const core::StoreForce force{.op = 7, .name = TheLock(), .owner = OwnerOf(1), .token = kToken};
  Step(force);
  EXPECT_TRUE(IsAsked<Plain>(0));
  EXPECT_EQ(CountAsked<Plain>(), 1u) << "one after the other";
  Pass(Config{}.node_timeout);
  ASSERT_TRUE(IsAsked<Plain>(1));
  Answer(1, core::ForceDone{.result = Result::kReleased});
  ASSERT_TRUE(IsAsked<Plain>(2));
  EXPECT_EQ(Told<core::ForceDone>(), nullptr);
  Answer(2, core::ForceDone{.result = Result::kReleased});
  ASSERT_NE(Told<core::ForceDone>(), nullptr);
  EXPECT_EQ(Told<core::ForceDone>()->result, Result::kReleased);
}

TEST_F(BallotTest, AForceThatTheHoldersBrokerHearsOfGoesNoFurther) {
  using Result = core::ForceDone::Result;
  Step(core::StoreForce{.op = 7, .name = TheLock(), .owner = OwnerOf(1), .token = kToken});
  Pass(Config{}.node_timeout);
  Answer(1, core::ForceDone{.result = Result::kTold});
  ASSERT_NE(Told<core::ForceDone>(), nullptr);
  EXPECT_EQ(Told<core::ForceDone>()->result, Result::kTold);
  Answer(0, core::ForceDone{.result = Result::kReleased});
  Pass(seconds(3));
  EXPECT_EQ(CountAsked<Plain>(), 0u);
}

}  // namespace
}  // namespace distlock::store::ballot
