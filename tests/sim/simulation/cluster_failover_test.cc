// SPDX-License-Identifier: Apache-2.0
//
// An old primary of a Cluster simulation that was replaced. A simulation that lets it go on for longer than a real one
// would shows losses that no product can prevent.
#include "simulation/cluster_failover.h"

#include <gtest/gtest.h>

#include "simulation/partition.h"
#include "store/redis/resp.h"

namespace distlock::sim {
namespace {

class ClusterFailoverTest : public testing::Test {
 protected:
  void Make(uint64_t seed) {
    failover_.reset();
    set_.reset();
    env_ = std::make_unique<Env>(seed, false);
    env_->temper.failing_nodes = true;
    env_->temper.ttls = {seconds(2)};
    env_->history.locks = {"a"};
    set_ = std::make_unique<ClusterSet>(*env_, directory_, [] {});
    failover_ = std::make_unique<ClusterFailover>(*env_, *set_, [] { return std::vector<Process*>(); });
    Pass(seconds(1));
  }

  void Pass(Duration time) {
    env_->time.Run(env_->now() + time, [] { return false; });
  }
  // False: it did not become so within that time.
  template <typename Done>
  bool PassUntil(Duration longest, Done done) {
    env_->time.Run(env_->now() + longest, done);
    return done();
  }
  ClusterNode& Owner() { return *set_->NodeOf("a"); }
  // Loses the primary that has the lock, in a simulation in which it is away for some seconds longer than it takes to
  // replace it, and the news with it. Returns it.
  ClusterNode& LosePrimaryForLong(ClusterFailover::Cause cause) {
    for (uint64_t seed = 1;; ++seed) {
      Make(seed);
      ClusterNode& old = Owner();
      failover_->LosePrimary(cause);
      PassUntil(seconds(20), [&] { return &Owner() != &old; });
      Pass(seconds(4));
      if (!old.running()) return old;
    }
  }
  void CutOffNode(ClusterNode& node, Duration time) {
    std::vector<Process*> all;
    for (const auto& one : set_->nodes()) all.push_back(one.get());
    CutOff(*env_, {node.actor()}, all, time);
  }
  // The node's answer to a script for the lock.
  std::string Ask(ClusterNode& node) {
    std::string text = "no answer";
    node.Run(1'000, store::MakeCommand({"EVALSHA", std::string(40, '0'), "1", "dl:{default/a}:h"}),
             [&](const store::ReplyPtr& reply) { text = store::Text(*reply); });
    return text;
  }

  Directory directory_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<ClusterSet> set_;
  std::unique_ptr<ClusterFailover> failover_;
};

TEST_F(ClusterFailoverTest, APrimaryThatStoodStillHearsThatItWasReplacedThoughItIsCutOffWhenItGoesOn) {
  ClusterNode& old = LosePrimaryForLong(ClusterFailover::Cause::kPaused);
  CutOffNode(old, seconds(60));
  ASSERT_TRUE(old.leads());
  ASSERT_TRUE(PassUntil(seconds(30), [&] { return old.running(); }));
  EXPECT_FALSE(old.leads());
}

TEST_F(ClusterFailoverTest, APrimaryThatWasKilledFollowsOnceItHasStarted) {
  ClusterNode& old = LosePrimaryForLong(ClusterFailover::Cause::kKilled);
  ASSERT_TRUE(PassUntil(seconds(30), [&] { return old.running(); }));
  EXPECT_TRUE(PassUntil(ClusterNode::kRejoins, [&] { return !old.leads(); }));
}

// A broker must not take this for the server that it knew.
TEST_F(ClusterFailoverTest, APrimaryComesBackWithoutWhatWasWrittenMeanwhileAndABrokerSeesNothingOfIt) {
  int forgot = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Make(seed);
    ClusterNode& first = Owner();
    StoreProcess broker(*env_, 99);
    failover_->ReturnUnseenBy(broker);
    ASSERT_TRUE(PassUntil(seconds(1), [&] { return &Owner() != &first; }));
    ClusterNode& present = Owner();
    // Each write is another key, so that the last ones may be missing.
    int written = 0;
    while (&Owner() == &present) {
      EXPECT_FALSE(broker.running()) << "seed " << seed;
      present.model().Execute(1'000, {"SET", "dl:{default/a}:" + std::to_string(++written), "1"});
      PassUntil(milliseconds(50), [&] { return &Owner() != &present; });
    }
    ASSERT_EQ(&Owner(), &first);
    forgot += first.model().Type("dl:{default/a}:" + std::to_string(written - 2)) == KeyType::kNone;
    EXPECT_TRUE(PassUntil(seconds(4), [&] { return broker.running(); }));
  }
  EXPECT_GE(forgot, 5);
}

TEST_F(ClusterFailoverTest, EveryPrimaryOfAMinorityRefusesAfterOneAndAHalfNodeTimeouts) {
  int with_older = 0;
  for (uint64_t seed = 1; seed < 200 && with_older < 5; ++seed) {
    Make(seed);
    failover_->LosePrimary(ClusterFailover::Cause::kCutOff);
    Pass(env_->temper.node_timeout * 3 / 2 + milliseconds(1));
    int apart = 0;
    for (const auto& node : set_->nodes()) {
      if (!CutAway(*env_, *node)) continue;
      ++apart;
      EXPECT_TRUE(Ask(*node).starts_with("CLUSTERDOWN")) << node->name() << " of seed " << seed << ": " << Ask(*node);
    }
    with_older += apart > 1;
  }
  EXPECT_EQ(with_older, 5) << "no simulation had two nodes in a minority";
}

}  // namespace
}  // namespace distlock::sim
