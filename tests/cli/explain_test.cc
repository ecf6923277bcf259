// SPDX-License-Identifier: Apache-2.0
//
// The sentences of `status --explain`, for each kind of store.
#include "explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distlock::cli {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

StoreNode Node(const std::string& address, StoreNodeState state = StoreNodeState::kUp) {
  StoreNode node;
  node.address = address;
  node.state = state;
  return node;
}

BrokerStatus Broker(std::vector<StoreNode> nodes) {
  BrokerStatus status;
  status.store_up = true;
  status.store_nodes = std::move(nodes);
  return status;
}

TEST(Explain, ABrokerThatServes) {
  EXPECT_THAT(ObstaclesOf(Broker({Node("a:1")})), IsEmpty());
  EXPECT_THAT(ObstaclesOf(Broker({Node("a:1"), Node("b:1")})), IsEmpty());
}

TEST(Explain, ADrain) {
  BrokerStatus status = Broker({Node("a:1")});
  status.draining = true;
  const auto found = ObstaclesOf(status);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("drains"));
  EXPECT_TRUE(found[0].stops_all);
}

TEST(Explain, AStoreThatIsDown) {
  BrokerStatus status = Broker({});
  status.store_up = false;
  status.store_url = "redis://a:1";
  status.store_problem = "refused";
  auto found = ObstaclesOf(status);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "The store at redis://a:1 does not serve: refused.");
  status.store_nodes = {Node("a:1", StoreNodeState::kDown)};
  status.store_nodes[0].problem = "refused";
  found = ObstaclesOf(status);
  ASSERT_THAT(found, SizeIs(1)) << "once";
  EXPECT_EQ(found[0].what, "The store's server a:1 does not serve: refused.");
}

TEST(Explain, ServersThatBelongToAnotherQuorum) {
  BrokerStatus status = Broker({});
  status.store_up = false;
  status.store_url = "redlock://a:1,b:1,c:1";
  status.store_problem = "a:1 belongs to another quorum: run distlockctl quorum-init";
  const auto found = ObstaclesOf(status);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("run distlockctl quorum-init"));
  EXPECT_EQ(found[0].advice, "This broker grants nothing until its servers are one quorum.");
  EXPECT_TRUE(found[0].stops_all);
}

TEST(Explain, AHoldOff) {
  StoreNode held_off = Node("a:1", StoreNodeState::kHeldOff);
  held_off.hold_off_left = std::chrono::seconds(38);
  auto found = ObstaclesOf(Broker({held_off}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("No lock is newly granted for another 38s: a:1 "));
  EXPECT_TRUE(found[0].stops_all);
  found = ObstaclesOf(Broker({held_off, Node("b:1")}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("No lock whose keys are there "));
  EXPECT_FALSE(found[0].stops_all) << "the other primary grants";
}

TEST(Explain, AServerThatRefusesWrites) {
  StoreNode refuses = Node("a:1");
  refuses.refusal = "OOM command not allowed when used memory > 'maxmemory'.";
  auto found = ObstaclesOf(Broker({refuses}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "No lock is granted: a:1 refuses writes: " + refuses.refusal);
  EXPECT_THAT(found[0].advice, HasSubstr("maxmemory"));
  EXPECT_TRUE(found[0].stops_all);
  found = ObstaclesOf(Broker({refuses, Node("b:1")}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("No lock whose keys are there is granted: a:1 "));
  EXPECT_FALSE(found[0].stops_all) << "the other primary grants";
  refuses.state = StoreNodeState::kHeldOff;
  refuses.refusal = "NOREPLICAS Not enough good replicas to write";
  found = ObstaclesOf(Broker({refuses}));
  ASSERT_THAT(found, SizeIs(2)) << "either is enough to grant nothing";
  EXPECT_THAT(found[0].what, HasSubstr("to write."));
  EXPECT_THAT(found[0].advice, HasSubstr("replicas back"));
  EXPECT_THAT(found[1].what, HasSubstr("newly granted"));
}

TEST(Explain, TooFewReplicas) {
  BrokerStatus status = Broker({Node("a:1")});
  status.wait_replicas = 2;
  status.store_nodes[0].replicas.resize(2);
  status.store_nodes[0].replicas[0].online = true;
  const auto found = ObstaclesOf(status);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "Each grant must be confirmed by 2 replicas of a:1, and 1 are in step.");
  status.store_nodes[0].replicas[1].online = true;
  EXPECT_THAT(ObstaclesOf(status), IsEmpty());
}

TEST(Explain, AQuorumWithoutItsMajority) {
  std::vector<StoreNode> nodes = {Node("a:1"), Node("b:1", StoreNodeState::kDown), Node("c:1")};
  for (StoreNode& node : nodes) node.independent = true;
  const auto minority = ObstaclesOf(Broker(nodes));
  ASSERT_THAT(minority, SizeIs(1));
  EXPECT_FALSE(minority[0].stops_all) << "two of three are enough";
  nodes[2].not_counted = "it may have forgotten locks";
  nodes[2].hold_off_left = std::chrono::seconds(12);
  const auto found = ObstaclesOf(Broker(nodes));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "Of 3 servers 1 counts, and each grant needs 2.");
  EXPECT_THAT(found[0].advice, HasSubstr("b:1 is down; c:1 is not counted for another 12s: it may have forgotten"));
}

TEST(Explain, AQuorumThatHasLostAMinority) {
  std::vector<StoreNode> nodes = {Node("a:1"), Node("b:1"), Node("c:1"), Node("d:1"), Node("e:1")};
  for (StoreNode& node : nodes) node.independent = true;
  EXPECT_THAT(ObstaclesOf(Broker(nodes)), IsEmpty());
  nodes[1].state = StoreNodeState::kDown;
  nodes[1].problem = "refused";
  auto found = ObstaclesOf(Broker(nodes));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].what, "Of 5 servers 4 count, and each grant needs 3. Locks are granted.");
  EXPECT_THAT(found[0].advice, HasSubstr("b:1 is down: refused. Bring back"));
  EXPECT_FALSE(found[0].stops_all);
  nodes[2].state = StoreNodeState::kDown;
  found = ObstaclesOf(Broker(nodes));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].what, HasSubstr("none will be when one more server is out"));
  EXPECT_FALSE(found[0].stops_all);
}

TEST(Explain, AServerOfAQuorumThatTheBrokerHasNeverReached) {
  BrokerStatus status = Broker({Node("a:6379"), Node("b:1")});
  for (StoreNode& node : status.store_nodes) node.independent = true;
  for (const char* url : {"redlock://a,b:1,[::1]", "redlocks://u:***@a:6379,b:1,[::1]:6379?ca=x,y/z"}) {
    status.store_url = url;
    const auto found = ObstaclesOf(status);
    ASSERT_THAT(found, SizeIs(1)) << url;
    EXPECT_THAT(found[0].what, HasSubstr("Of 3 servers 2 count, and each grant needs 2.")) << url;
    EXPECT_THAT(found[0].advice, HasSubstr("[::1]:6379 has been down since the broker started.")) << url;
    EXPECT_FALSE(found[0].stops_all);
  }
  status.store_url = "redlock://c,d,e";
  EXPECT_THAT(ObstaclesOf(status), IsEmpty()) << "the servers have other names than in the URL";
}

TEST(Explain, AQuorumOfWhichMostRefuseWrites) {
  std::vector<StoreNode> nodes = {Node("a:1"), Node("b:1"), Node("c:1")};
  for (StoreNode& node : nodes) node.independent = true;
  nodes[0].refusal = "OOM is its word";
  const auto minority = ObstaclesOf(Broker(nodes));
  ASSERT_THAT(minority, SizeIs(1));
  EXPECT_FALSE(minority[0].stops_all) << "two of three are enough";
  nodes[1].refusal = "MISCONF is its word";
  const auto found = ObstaclesOf(Broker(nodes));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].advice, HasSubstr("a:1 refuses writes: OOM is its word; b:1 refuses writes: MISCONF"));
}

}  // namespace
}  // namespace distlock::cli
