// SPDX-License-Identifier: Apache-2.0
#include "redis/model_fixture.h"

namespace distlock::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReplicationTest : public ModelTest {
 protected:
  ReplicationTest() {
    replica.BecomeReplica();
    model.OnEffects([this](const Effects& effects) { log.push_back(effects); });
  }

  void CatchUp() {
    for (const Effects& effects : log) replica.Apply(effects);
    log.clear();
  }
  std::string DoOnReplica(const Argv& argv) { return ReplyText(*replica.Execute(1, argv)); }
  std::vector<std::string> Words(size_t effects, size_t command) { return log.at(effects).commands.at(command); }

  RedisModel replica{kStart};
  std::vector<Effects> log;
};

TEST_F(ReplicationTest, OneCallIsOneSetOfEffectsWithAbsoluteTimes) {
  Eval("redis.call('SET', 'k', 'v', 'PX', 5) redis.call('PEXPIRE', 'k', 7) redis.call('PUBLISH', 'c', 'm')");
  Do({"GET", "k"});
  ASSERT_EQ(log.size(), 1);
  EXPECT_THAT(Words(0, 0), ElementsAre("SET", "k", "v", "PXAT", "1700000000005"));
  EXPECT_THAT(Words(0, 1), ElementsAre("PEXPIREAT", "k", "1700000000007"));
  EXPECT_THAT(Words(0, 2), ElementsAre("PUBLISH", "c", "m"));
}

TEST_F(ReplicationTest, WhatHasBegunIsReplicatedAlsoWhenTheScriptFails) {
  Eval("redis.call('SET', 'k', 'v') redis.call('HLEN', 'k')");
  ASSERT_EQ(log.size(), 1);
  EXPECT_THAT(Words(0, 0), ElementsAre("SET", "k", "v"));
}

TEST_F(ReplicationTest, AReplicaGetsTheSameData) {
  Do({"SET", "s", "v", "PX", "500"});
  Do({"ZADD", "z", "1", "a", "2", "b"});
  Do({"ZREM", "z", "a"});
  Do({"HSET", "h", "f", "v"});
  Do({"HDEL", "h", "f"});
  Do({"LPUSH", "l", "v"});
  Do({"SADD", "e", "v"});
  Do({"PEXPIRE", "z", "0"});
  replica.SetClock(kStart + 400 * kMs);
  CatchUp();
  ASSERT_EQ(replica.Keys().size(), model.Keys().size());
  for (size_t i = 0; i < model.Keys().size(); ++i) {
    EXPECT_EQ(replica.Keys()[i].key, model.Keys()[i].key);
    EXPECT_EQ(replica.Keys()[i].type, model.Keys()[i].type);
    EXPECT_EQ(replica.Keys()[i].expires_ms, model.Keys()[i].expires_ms);
  }
  EXPECT_EQ(replica.Pttl("s"), 100);
  Do({"FLUSHALL"});
  CatchUp();
  EXPECT_THAT(replica.Keys(), IsEmpty());
}

TEST_F(ReplicationTest, AReplicaRefusesWritesAndReadsExpiredAsAbsent) {
  Do({"SET", "k", "v", "PX", "5"});
  CatchUp();
  EXPECT_EQ(DoOnReplica({"SET", "k", "w"}), "-READONLY You can't write against a read only replica.");
  EXPECT_THAT(DoOnReplica({"EVAL", "return redis.call('DEL', 'k')", "0"}),
              testing::MatchesRegex("-READONLY You can't write against a read only replica\\. script: .*:1\\."));
  replica.SetMaxMemory(1);
  EXPECT_EQ(DoOnReplica({"SET", "k", "w"}), "-READONLY You can't write against a read only replica.");
  replica.Advance(kStart + 10 * kMs);
  EXPECT_EQ(DoOnReplica({"GET", "k"}), "nil");
  EXPECT_EQ(replica.NextExpiry(), std::nullopt);
  replica.SetClock(kStart);
  EXPECT_EQ(DoOnReplica({"GET", "k"}), "\"v\"");
}

TEST_F(ReplicationTest, AnExpiryReachesAReplicaAsTheWordOfItsPrimary) {
  std::vector<ChangeKind> kinds;
  replica.OnChange([&](std::string_view, ChangeKind kind) { kinds.push_back(kind); });
  Do({"SET", "k", "v", "PX", "5"});
  model.Advance(kStart + 10 * kMs);
  EXPECT_THAT(Words(1, 0), ElementsAre("UNLINK", "k"));
  CatchUp();
  EXPECT_THAT(replica.Keys(), IsEmpty());
  EXPECT_THAT(kinds, ElementsAre(ChangeKind::kWritten, ChangeKind::kExpired));
}

TEST_F(ReplicationTest, EffectsActOnKeysThatAreExpiredHere) {
  Do({"ZADD", "z", "1", "a"});
  Do({"PEXPIRE", "z", "5"});
  CatchUp();
  Do({"ZADD", "z", "2", "b"});
  replica.SetClock(kStart + 10 * kMs);
  CatchUp();
  replica.SetClock(kStart);
  EXPECT_EQ(replica.Zset("z").size(), 2);
}

TEST_F(ReplicationTest, APromotedReplicaKeepsWhatItHasAndKnowsNoScripts) {
  Do({"SET", "k", "v"});
  Do({"SET", "old", "v", "PX", "5"});
  const std::string sha1 = Do({"SCRIPT", "LOAD", "return 1"});
  CatchUp();
  Do({"SET", "late", "v"});
  replica.SetClock(kStart + 10 * kMs);
  replica.Promote();
  EXPECT_FALSE(replica.is_replica());
  EXPECT_EQ(DoOnReplica({"SET", "new", "v"}), "+OK");
  EXPECT_EQ(DoOnReplica({"EXISTS", "k", "old", "late"}), "1");
  EXPECT_EQ(DoOnReplica({"EVALSHA", sha1.substr(1, 40), "0"}), "-NOSCRIPT No matching script. Please use EVAL.");
}

TEST_F(ReplicationTest, APublishReachesTheSubscribersOfAReplica) {
  std::vector<int> heard;
  replica.OnMessage([&](int client, std::string_view, std::string_view) { heard.push_back(client); });
  replica.Execute(3, {"SUBSCRIBE", "c"});
  EXPECT_EQ(Do({"PUBLISH", "c", "m"}), "0");
  CatchUp();
  EXPECT_THAT(heard, ElementsAre(3));
}

TEST_F(ReplicationTest, ACopyHasTheDataAndNothingElse) {
  Do({"SET", "k", "v", "PX", "5"});
  Do({"SCRIPT", "LOAD", "return 1"});
  RedisModel copy(kStart + 2 * kMs);
  copy.CopyDataFrom(model);
  EXPECT_EQ(copy.String("k"), "v");
  EXPECT_EQ(copy.Pttl("k"), 3);
  EXPECT_EQ(ReplyText(*copy.Execute(1, {"SCRIPT", "EXISTS", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"})), "[0]");
  Do({"SET", "k", "w"});
  EXPECT_EQ(copy.String("k"), "v");
}

TEST_F(ReplicationTest, ARestartKeepsTheData) {
  Do({"SET", "k", "v"});
  DoAs(3, {"SUBSCRIBE", "c"});
  const std::string sha1 = Do({"SCRIPT", "LOAD", "return 1"});
  model.Restart();
  EXPECT_EQ(model.String("k"), "v");
  EXPECT_THAT(model.Subscribers("c"), IsEmpty());
  EXPECT_FALSE(model.HasScript(sha1.substr(1, 40)));
}

}  // namespace
}  // namespace distlock::sim
