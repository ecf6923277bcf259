// SPDX-License-Identifier: Apache-2.0
//
// The store of a Cluster in virtual time: its connections, its channels, and nodes that are not fit.
#include <algorithm>

#include "played_cluster.h"
#include "store/redis/error_class.h"

namespace distlock::store {
namespace {

TEST_F(ClusterStoreTest, ConnectsTwiceToEachPrimary) {
  Make();
  Pass(seconds(5));
  EXPECT_TRUE(up_);
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(Open("b"), 2u);
  EXPECT_TRUE(problems_.empty()) << problems_[0];
}

// ---- Nodes that know only themselves, nodes that come back ----

TEST_F(ClusterStoreTest, ANodeThatNamesItselfAloneAtTheStartIsNotTheOnlyOneThatIsAsked) {
  played_["a"].alone = true;
  Make();
  Pass(seconds(2));
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(Open("b"), 2u) << "found through the other seed";
  Acquire("b");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
}

// A list that lacks the other nodes' locks would look complete.
TEST_F(ClusterStoreTest, ListsNothingWhileSlotsHaveNoKnownNode) {
  played_["a"].alone = true;
  played_["b"].deaf = true;
  Make();
  Pass(seconds(2));
  ASSERT_TRUE(up_);
  const auto list = [this](const std::string& token) {
    absl::StatusOr<LockPage> page = absl::UnknownError("nothing came");
    store_->List("ns", "", 10, token, seconds(5), [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
    Pass(milliseconds(10));
    return page;
  };
  for (const char* token : {"", "id0.", "id8192.", "idx."}) {
    const auto page = list(token);
    EXPECT_EQ(page.status().code(), absl::StatusCode::kUnavailable) << token << ": " << page.status();
    EXPECT_NE(page.status().message().find("slot"), std::string::npos) << page.status();
  }
  played_["b"].deaf = false;
  Pass(seconds(2));
  const auto first = list("");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->next_page_token, "id8192.");
  const auto last = list(first->next_page_token);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->next_page_token, "");
}

// By MOVED only an address is known, which has no place in the order of the walk.
TEST_F(ClusterStoreTest, ListsNothingWhileANodeIsKnownByItsAddressAlone) {
  played_["c"] = {.first = 0, .last = 0, .id = "c", .has_slots = false};
  Make();
  played_["a"].moved_to = "c";
  Acquire("a");
  absl::StatusOr<LockPage> page = absl::UnknownError("nothing came");
  store_->List("ns", "", 10, "", seconds(5), [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
  Pass(milliseconds(3));
  EXPECT_EQ(page.status().code(), absl::StatusCode::kUnavailable) << page.status();
}

TEST_F(ClusterStoreTest, ASeedThatDoesNotAnswerKeepsNobodyFromBeingAsked) {
  played_["a"].alone = true;
  played_["b"].deaf = true;
  Make();
  Pass(seconds(5));
  EXPECT_GE(played_["a"].asked_for_slots, 4);
  played_["b"].deaf = false;
  Pass(seconds(2));
  EXPECT_EQ(Open("b"), 2u);
}

// A failover and another one back: too short for the question of each second to notice.
TEST_F(ClusterStoreTest, ANodeThatHasSlotsAgainIsAskedAnewWhoItIs) {
  Make();
  Pass(seconds(5));
  const size_t dials = Dials("b");
  const auto change = [&](Slot last_of_a, bool b_has_slots) {
    played_["a"].last = last_of_a;
    played_["b"].has_slots = b_has_slots;
    played_["a"].answer = "CLUSTERDOWN for a moment";
    Acquire("a");
    Pass(milliseconds(500));
  };
  change(16383, false);
  EXPECT_EQ(Open("b"), 2u) << "it is left later";
  EXPECT_EQ(Dials("b"), dials);
  EXPECT_EQ(renews_, 0);
  change(8191, true);
  EXPECT_EQ(Open("b"), 2u);
  EXPECT_EQ(Dials("b"), dials + 1);
  EXPECT_EQ(renews_, 1) << "of all leases";
}

// While it was down, or a replica, each attempt made the next one later.
TEST_F(ClusterStoreTest, ANodeThatHasSlotsAgainIsConnectedToAtOnce) {
  Make();
  played_["b"].refuses = true;
  played_["b"].has_slots = false;
  played_["a"].last = 16383;
  Pass(seconds(6));
  // Both connections have just been tried, and their attempts are a second apart, or more, by now.
  const auto tried_lately = [this] {
    const auto& dialed = net_.dialer->dialed;
    return net_.timers->Now() - dialed[dialed.size() - 2]->dialed_at < milliseconds(400);
  };
  for (int i = 0; i < 10'000 && !tried_lately(); ++i) Pass(milliseconds(1));
  ASSERT_TRUE(tried_lately());
  ASSERT_EQ(Open("b"), 0u);

  played_["b"].refuses = false;
  played_["b"].has_slots = true;
  played_["a"].last = 8191;
  played_["a"].answer = "CLUSTERDOWN for a moment";
  Acquire("a");
  Pass(milliseconds(120));
  EXPECT_EQ(Open("b"), 2u);
  EXPECT_EQ(renews_, 1) << "of all leases";
}

TEST_F(ClusterStoreTest, WhereAChannelHasMovedIsKnownWithoutAnotherQuestion) {
  played_["a"].channel_moved_to = "b";
  Make();
  EXPECT_EQ(Questions(), 1);
  auto in_first_slot = core::LockName::Encode("ns", "k");
  for (int i = 0; SlotOfLock(in_first_slot) != 0; ++i) in_first_slot = core::LockName::Encode("ns", Cat("k", i));
  EXPECT_FALSE(Acquire(in_first_slot, "b").empty());
}

// A hold's end is stored in the time of its node, and goes to another node with its slot.
TEST_F(ClusterStoreTest, StatusShowsHowFarEachNodesClockIsFromTheMedian) {
  played_["a"].ahead = milliseconds(300);
  Make();
  Pass(seconds(20));  // a status is told again each 15 s
  ASSERT_TRUE(statuses_["a"].clock_skew && statuses_["b"].clock_skew);
  EXPECT_LE(std::chrono::abs(*statuses_["a"].clock_skew - milliseconds(150)), milliseconds(5));
  EXPECT_LE(std::chrono::abs(*statuses_["b"].clock_skew + milliseconds(150)), milliseconds(5));
}

// ---- Hand-offs without channels of shards ----

TEST_F(ClusterStoreTest, ChannelsOfShardsAreUsedAndTheirListenersCounted) {
  Make();
  Pass(seconds(5));
  EXPECT_EQ(Acquire("a").at(7 + 9), "1");
  Say("a", "smessage", Cat(LockOf("a").escaped(), "\n1700000000000005;0"));
  EXPECT_EQ(notices_.size(), 1u);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

// Fails when the channel is chosen once and not again after the slots have moved: notices would be missed.
TEST_F(ClusterStoreTest, AChannelIsThatOfASlotThatTheNodeHasNow) {
  Make();
  Pass(seconds(5));
  EXPECT_TRUE(Listens("b", 8192));
  played_["a"].last = 8000;
  played_["b"].first = 8001;
  played_["a"].answer = "CLUSTERDOWN for a moment";
  Acquire("a");
  Pass(seconds(1));
  EXPECT_TRUE(Listens("b", 8001));
  EXPECT_TRUE(Listens("a", 0));
}

TEST_F(ClusterStoreTest, AServerWithoutSsubscribeIsListenedToByPublishWhoseCountIsNotTrusted) {
  for (auto& [host, node] : played_) node.knows_ssubscribe = false;
  Make();
  Pass(seconds(5));
  EXPECT_TRUE(up_);
  EXPECT_EQ(Acquire("a").at(7 + 9), "0");
  Say("a", "message", Cat(LockOf("a").escaped(), "\n1700000000000005;0"));
  EXPECT_EQ(notices_.size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u) << "once, not once a node";
  EXPECT_NE(warnings_[0].find("does not know SSUBSCRIBE"), std::string::npos) << warnings_[0];
}

TEST_F(ClusterStoreTest, SoIsOneWhoseScriptsMayNotPublishToAShard) {
  played_["b"].refuses_spublish = "ERR Script attempted to access a non local key in a cluster node";
  Make();
  Pass(seconds(5));
  EXPECT_EQ(Acquire("b").at(7 + 9), "0");
  EXPECT_EQ(Acquire("a").at(7 + 9), "1") << "each node by itself";
  Say("b", "message", Cat(LockOf("b").escaped(), "\n1700000000000005;0"));
  EXPECT_EQ(notices_.size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("non local key"), std::string::npos) << warnings_[0];
}

// ---- A node that refuses every script ----

TEST_F(ClusterStoreTest, ANodeWhoseScriptsSomebodyBrokeIsNamed) {
  Make();
  Pass(seconds(5));
  played_["a"].poisoned = true;
  Acquire("a");
  Pass(milliseconds(10));
  ASSERT_FALSE(problems_.empty());
  EXPECT_NE(problems_.back().find("redis://a:6379"), std::string::npos) << problems_.back();
  EXPECT_NE(problems_.back().find(kRefusesAllScripts), std::string::npos) << problems_.back();
  Acquire("a");
  EXPECT_EQ(Cause(), kRefusesAllScripts) << "and it is known that nothing has run";
  Acquire("b");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << "others go on: " << Cause();
}

TEST_F(ClusterStoreTest, SoIsOneThatWasBrokenBeforeWeCame) {
  played_["a"].poisoned = true;
  Make();
  Pass(seconds(2));
  EXPECT_TRUE(up_) << "with the other node";
  ASSERT_FALSE(problems_.empty());
  EXPECT_NE(problems_[0].find("a:6379"), std::string::npos) << problems_[0];
  EXPECT_NE(problems_[0].find(kRefusesAllScripts), std::string::npos) << problems_[0];
  played_["a"].poisoned = false;  // it was restarted
  Pass(seconds(5));
  Acquire("a");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
}

// While a slot is on its way, one script may be refused with the same words.
TEST_F(ClusterStoreTest, OneScriptThatIsRefusedForAForeignKeyMakesNoBrokenNode) {
  Make();
  Pass(seconds(5));
  played_["a"].answer =
      "ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:1.";
  Acquire("a");
  Acquire("a");
  for (const std::string& problem : problems_) {
    EXPECT_EQ(problem.find(kRefusesAllScripts), std::string::npos) << problem;
  }
  ASSERT_EQ(replies_.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<core::StoreUnknown>(replies_[1].outcome)) << "a part of it may have run";
}

// ---- The hold-off ----

// It asks the others after half of its node-timeout, and counts the whole of it from there.
TEST_F(ClusterStoreTest, APrimaryThatIsCutOffGoesOnForOneAndAHalfNodeTimeouts) {
  Make({.kind = HoldOffOptions::Kind::kAuto, .longest_ttl = seconds(30), .can_fail_over = true});
  Pass(seconds(1));
  std::vector<std::string> told;
  for (const auto& wire : net_.dialer->dialed) {
    for (const std::string& command : wire->commands) {
      const ReplyPtr argv = Parse(command);
      if (argv->elements < 10 || Text(*argv->element[1]) != lua::kCensus.sha1) continue;
      told.emplace_back(Text(*argv->element[9]));
    }
  }
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), "38500") << "30 s, 7.5 s, and a turn of its timer";
}

// ---- Words at the start ----

TEST_F(ClusterStoreTest, WarnsOnceOfLeasesThatNoFailoverSparesAndOfFullCoverage) {
  node_timeout_ = "15000";
  full_coverage_ = "yes";
  Make();
  Pass(seconds(30));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_NE(warnings_[0].find("set --default-ttl to at least 18000 ms"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[1].find("cluster-require-full-coverage is yes"), std::string::npos) << warnings_[1];
}

TEST_F(ClusterStoreTest, WarnsOnceOfLeasesThatAReplacementByHandOutruns) {
  node_timeout_ = "10000";
  const HoldOffOptions hold_off{.kind = HoldOffOptions::Kind::kAuto, .longest_ttl = seconds(30), .can_fail_over = true};
  Make(hold_off);
  Pass(seconds(30));
  const auto is_it = [](const std::string& one) { return Contains(one, "CLUSTER FAILOVER FORCE"); };
  ASSERT_EQ(std::ranges::count_if(warnings_, is_it), 1);
  EXPECT_TRUE(Contains(*std::ranges::find_if(warnings_, is_it), "use a --default-ttl of at least 24000 ms"));
}

}  // namespace
}  // namespace distlock::store
