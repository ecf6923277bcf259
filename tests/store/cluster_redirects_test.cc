// SPDX-License-Identifier: Apache-2.0
//
// The store of a Cluster when a node answers where a lock is instead of running the command.
#include <set>

#include "played_cluster.h"

namespace distlock::store {
namespace {

class ClusterRedirectsTest : public ClusterStoreTest {
 protected:
  // The nodes are connected and have told the map.
  void Settle() {
    Make();
    Pass(seconds(5));
    ASSERT_TRUE(up_);
    redirects_.clear();
  }
};

// Fails when MOVED does not patch the map: all tries would be used up at the node that said so.
TEST_F(ClusterRedirectsTest, WhatIsMovedIsSentWhereItIsNowAndSoIsWhatComesNext) {
  Make();
  Pass(seconds(5));
  played_["a"].alone = played_["b"].alone = true;  // no map is believed, and only MOVED tells of it
  const core::LockName lock = LockOf("a");
  played_["a"].answer = Cat("MOVED ", SlotOf(Cat("dl:{", lock.escaped(), "}")), " b:6379");
  EXPECT_FALSE(Acquire(lock, "a").empty());
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << "of b, at the first try: " << Cause();
  EXPECT_FALSE(Acquire(lock, "b").empty());
}

TEST_F(ClusterRedirectsTest, ANodeThatAnswersMovedToItselfGetsANewConnection) {
  Make();
  Pass(seconds(5));
  const Slot slot = SlotOf(Cat("dl:{", LockOf("a").escaped(), "}"));
  played_["a"].answer = Cat("MOVED ", slot, " a:6379");
  const size_t dials = Dials("a"), dials_of_b = Dials("b");
  const int asked = played_["a"].asked_for_slots + played_["b"].asked_for_slots;
  Acquire("a");
  ASSERT_EQ(replies_.size(), 1u) << "one answer, instead of round after round";
  EXPECT_NE(Cause().find("MOVED"), std::string::npos) << Cause();
  played_["a"].answer = "NOREPLICAS not now";
  Pass(milliseconds(200));
  EXPECT_EQ(Dials("a"), dials + 1);
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(Dials("b"), dials_of_b);
  EXPECT_GT(played_["a"].asked_for_slots + played_["b"].asked_for_slots, asked) << "the map is in doubt";
  Acquire("a");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
}

TEST_F(ClusterRedirectsTest, ALockThatIsSentToAndFroIsGivenUp) {
  Settle();
  played_["a"].alone = played_["b"].alone = true;
  played_["a"].moved_to = "b";
  played_["b"].moved_to = "a";
  const int asked = Questions();
  Acquire("a");
  Pass(milliseconds(20));
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(Cause().find("moves from node to node"), std::string::npos) << Cause();
  EXPECT_EQ(redirects_[ClusterEvents::Redirect::kMoved], LockLanes::kMaxRedirects + 1);
  EXPECT_LE(Questions(), asked + 1);
  EXPECT_EQ(Open("a") + Open("b"), 4u) << "neither is at fault";
}

TEST_F(ClusterRedirectsTest, AStormOfThemIsOneQuestionForTheMap) {
  Settle();
  const auto locks = LocksOf("a", 50);
  played_["a"].moved_to = "b";
  played_["a"].has_slots = false;
  played_["b"].first = 0;
  const int asked = Questions();
  for (const auto& lock : locks) {
    store_->Submit(core::StoreAcquire{.op = ++op_, .name = lock, .ttl = seconds(9)});
  }
  store_->Flush();
  Pass(milliseconds(10));
  ASSERT_EQ(replies_.size(), locks.size());
  std::set<core::OpId> answered;
  for (const auto& reply : replies_) {
    answered.insert(reply.op);
    const auto* failed = std::get_if<core::StoreFailed>(&reply.outcome);
    ASSERT_TRUE(failed);
    EXPECT_NE(failed->cause.find("NOREPLICAS"), std::string::npos) << "not from where it is: " << failed->cause;
  }
  EXPECT_EQ(answered.size(), locks.size());
  EXPECT_EQ(redirects_[ClusterEvents::Redirect::kMoved], 50);
  EXPECT_EQ(Questions(), asked + 1);
  Pass(milliseconds(200));
  EXPECT_LE(Questions(), asked + 2) << "and at most one more, of the doubts while it was answered";
  Acquire(locks.back(), "b");
  EXPECT_EQ(redirects_[ClusterEvents::Redirect::kMoved], 50);
}

TEST_F(ClusterRedirectsTest, TheMapIsRightFiftyMsAfterTheFirst) {
  Settle();
  const auto locks = LocksOf("a", 2);
  played_["a"].moved_to = "b";
  played_["a"].has_slots = false;
  played_["b"].first = 0;
  Acquire(locks[0], "a");
  Pass(milliseconds(48));
  Acquire(locks[1], "b");
  EXPECT_EQ(redirects_[ClusterEvents::Redirect::kMoved], 1);
  EXPECT_GE(refreshes_[ClusterEvents::Refresh::kAdopted], 2);
}

TEST_F(ClusterRedirectsTest, TryAgainIsNoAnswerAndNoDoubt) {
  Settle();
  played_["a"].answer = "TRYAGAIN Multiple keys request during rehashing of slot";
  const int asked = Questions();
  Acquire("a");
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(Cause().find("TRYAGAIN"), std::string::npos) << Cause();
  Pass(milliseconds(300));
  EXPECT_EQ(Questions(), asked) << "the node is the right one";
  EXPECT_EQ(redirects_[ClusterEvents::Redirect::kTryAgain], 1);
}

TEST_F(ClusterRedirectsTest, ClusterDownIsNoAnswerAndPutsTheMapInDoubt) {
  Settle();
  played_["a"].answer = "CLUSTERDOWN The cluster is down";
  const int asked = Questions();
  Acquire("a");
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(Cause().find("CLUSTERDOWN"), std::string::npos) << Cause();
  Pass(milliseconds(50));
  EXPECT_EQ(Questions(), asked + 1);
  EXPECT_EQ(redirects_[ClusterEvents::Redirect::kClusterDown], 1);
  Acquire("b");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << "the others go on: " << Cause();
}

TEST_F(ClusterRedirectsTest, AskIsFollowedOnceBehindAsking) {
  Settle();
  const core::LockName lock = LockOf("a");
  played_["a"].answer = Cat("ASK ", SlotOfLock(lock), " b:6379");
  for (int round = 1; round <= 2; ++round) {
    Acquire(lock, "a");  // the map stays
    ASSERT_EQ(replies_.size(), static_cast<size_t>(round));
    EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << "of b: " << Cause();
    EXPECT_EQ(redirects_[ClusterEvents::Redirect::kAsk], round);
  }
  int behind_asking = 0;
  for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
    const auto& commands = net_.dialer->dialed[i]->commands;
    for (size_t at = 0; at < commands.size(); ++at) {
      if (commands[at].find("ASKING") == std::string::npos) continue;
      EXPECT_EQ(net_.dialer->addresses[i].host, "b");
      ASSERT_LT(at + 1, commands.size());
      EXPECT_NE(commands[at + 1].find(Cat("{", lock.escaped(), "}:h")), std::string::npos) << commands[at + 1];
      ++behind_asking;
    }
  }
  EXPECT_EQ(behind_asking, 2);
}

// ---- Addresses ----

TEST_F(ClusterRedirectsTest, AHostThatTheNodeDoesNotKnowIsAskedForInTheMap) {
  Settle();
  played_["a"].moved_to = "?";
  const int asked = Questions();
  Acquire("a");
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(Cause().find("MOVED"), std::string::npos) << Cause();
  Pass(milliseconds(50));
  EXPECT_EQ(Questions(), asked + 1);
  EXPECT_EQ(Dials("?"), 0u);
}

TEST_F(ClusterRedirectsTest, AnEmptyHostIsTheOneThatSaysSo) {
  Settle();
  const core::LockName lock = LockOf("a");
  played_["a"].answer = Cat("MOVED ", SlotOfLock(lock), " :7000");
  Acquire(lock, "a");
  const bool dialed = std::ranges::any_of(
      net_.dialer->addresses, [](const ServerAddress& address) { return address.host == "a" && address.port == 7000; });
  EXPECT_TRUE(dialed);
}

// The map names its nodes, and MOVED tells their addresses.
TEST_F(ClusterRedirectsTest, ANodeUnderAnotherNameIsUsedUntilTheMapNamesIt) {
  played_["10.0.0.2"] = {.id = "8192", .has_slots = false};
  Settle();
  const core::LockName lock = LockOf("a");
  played_["a"].moved_to = "10.0.0.2";
  played_["a"].has_slots = false;
  played_["b"].first = 0;
  Acquire(lock, "a");
  EXPECT_GT(Dials("10.0.0.2"), 0u);
  Pass(milliseconds(200));
  Acquire(lock, "b");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
  Pass(seconds(15));
  EXPECT_EQ(Open("10.0.0.2"), 0u) << "it is left, since no slot is there by the map";
  EXPECT_EQ(Open("b"), 2u);
}

}  // namespace
}  // namespace distlock::store
