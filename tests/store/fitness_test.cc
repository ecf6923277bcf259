// SPDX-License-Identifier: Apache-2.0
#include "store/redis/fitness.h"

#include <gtest/gtest.h>

#include <utility>

#include "parse_reply.h"
#include "store/text.h"

namespace distlock::store {
namespace {

std::string Info(std::string_view changed = "") {
  std::string info =
      "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:0\r\n"
      "maxmemory_policy:noeviction\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n# Replication\r\nrole:master\r\n";
  if (changed.empty()) return info;
  const std::string name(changed.substr(0, changed.find(':') + 1));
  const size_t at = info.find("\n" + name) + 1;
  return info.replace(at, info.find('\r', at) - at, changed);
}

TEST(Fitness, AGoodServer) {
  const Fitness fitness = JudgeFitness(ServerInfo(Info()), "3600 1");
  EXPECT_TRUE(fitness.status.ok()) << fitness.status;
  EXPECT_TRUE(fitness.warnings.empty());
}

TEST(Fitness, AnEvictingPolicyIsRefusedWithAndWithoutALimit) {
  for (const char* limit : {"maxmemory:0", "maxmemory:1000000"}) {
    std::string info = Info("maxmemory_policy:volatile-lru");
    info.replace(info.find("maxmemory:0"), 11, limit);
    const Fitness fitness = JudgeFitness(ServerInfo(info), "");
    EXPECT_EQ(fitness.status.code(), absl::StatusCode::kFailedPrecondition) << limit;
    EXPECT_NE(fitness.status.ToString().find("'volatile-lru'"), std::string::npos) << fitness.status;
    EXPECT_NE(fitness.status.ToString().find("CONFIG SET maxmemory-policy noeviction"), std::string::npos);
  }
}

TEST(Fitness, VersionsFrom62) {
  for (const char* good : {"6.2.0", "6.10.1", "7.0.15", "8.0.0", "7.2.4"}) {
    EXPECT_TRUE(JudgeFitness(ServerInfo(Info(std::string("redis_version:") + good)), "").status.ok()) << good;
  }
  for (const char* bad : {"6.0.16", "5.0.14", "x", ""}) {
    EXPECT_EQ(JudgeFitness(ServerInfo(Info(std::string("redis_version:") + bad)), "").status.code(),
              absl::StatusCode::kFailedPrecondition)
        << bad;
  }
}

TEST(Fitness, AValkeyIsKnownByItsOwnVersion) {
  const ServerInfo valkey("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n");
  EXPECT_EQ(IdentityOf(valkey).version, "8.0.1");
  EXPECT_EQ(IdentityOf(ServerInfo("redis_version:7.0.15\r\n")).version, "7.0.15");
}

TEST(Fitness, ReplicasAndLoadingPassByThemselves) {
  EXPECT_EQ(JudgeFitness(ServerInfo(Info("role:slave")), "").status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(JudgeFitness(ServerInfo(Info("loading:1")), "").status.code(), absl::StatusCode::kUnavailable);
}

TEST(Fitness, OtherModesAreNotServed) {
  EXPECT_EQ(JudgeFitness(ServerInfo(Info("redis_mode:cluster")), "").status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(JudgeFitness(ServerInfo(Info("redis_mode:sentinel")), "").status.code(), absl::StatusCode::kUnimplemented);
}

// Valkey says server_mode, unless it is told to imitate Redis.
TEST(Fitness, OtherModesOfValkeyAreNotServed) {
  for (const std::string mode : {"cluster", "sentinel"}) {
    std::string info = Info("redis_mode:" + mode);
    info.replace(info.find("redis_mode"), std::string("redis_mode").size(), "server_mode");
    EXPECT_EQ(JudgeFitness(ServerInfo(info), "").status.code(), absl::StatusCode::kUnimplemented) << mode;
  }
}

TEST(Fitness, WarnsOfAServerThatForgets) {
  EXPECT_EQ(JudgeFitness(ServerInfo(Info("aof_enabled:0")), "").warnings.size(), 1u);
  EXPECT_EQ(JudgeFitness(ServerInfo(Info("aof_enabled:0")), "?").warnings.size(), 1u);
  EXPECT_TRUE(JudgeFitness(ServerInfo(Info("aof_enabled:0")), "3600 1").warnings.empty());
}

// As a server tells them, among others, in no order.
TEST(Fitness, ScriptsObeyMinReplicasFromRedis627On) {
  for (const std::string_view version : {"6.2.0", "6.2.6", "6.2", "6.2.x", "6.0.20", "6.3.4"}) {
    EXPECT_TRUE(ScriptsPassMinReplicas(version)) << version;
  }
  for (const std::string_view version : {"6.2.7", "6.2.14", "7.0.0", "7.0", "7.2.5", "8.0.1"}) {
    EXPECT_FALSE(ScriptsPassMinReplicas(version)) << version;
  }
}

AppendSettings Settings(std::string_view appendonly, std::string_view appendfsync, std::string_view no_fsync) {
  CommandBuilder reply;
  reply.Arg("no-appendfsync-on-rewrite").Arg(no_fsync).Arg("appendfilename").Arg("appendonly.aof");
  reply.Arg("appendonly").Arg(appendonly).Arg("appendfsync").Arg(appendfsync);
  return ReadAppendSettings(*Parse(std::move(reply).Build()));
}

TEST(Fitness, AServerKeepsAllOnlyWhenItAppendsAlwaysAndDuringRewritesToo) {
  EXPECT_TRUE(Settings("yes", "always", "no").KeepsAll());
  EXPECT_FALSE(Settings("yes", "always", "yes").KeepsAll());
  EXPECT_FALSE(Settings("yes", "everysec", "no").KeepsAll());
  EXPECT_FALSE(Settings("no", "always", "no").KeepsAll());
  EXPECT_FALSE(ReadAppendSettings(*Parse("-NOPERM\r\n")).KeepsAll());
  EXPECT_FALSE(ReadAppendSettings(*Parse("*0\r\n")).KeepsAll());
}

TEST(Fitness, WarnsOfAnAppendOnlyFileThatRewritesOutrun) {
  const auto warnings = JudgeFitness(ServerInfo(Info()), "", false, Settings("yes", "always", "yes")).warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(Contains(warnings[0], "run CONFIG SET no-appendfsync-on-rewrite no")) << warnings[0];
  EXPECT_EQ(JudgeFitness(ServerInfo(Info()), "", false, Settings("yes", "everysec", "yes")).warnings.size(), 2u);
  EXPECT_TRUE(JudgeFitness(ServerInfo(Info()), "", false, Settings("yes", "always", "no")).warnings.empty());
  EXPECT_TRUE(JudgeFitness(ServerInfo(Info("aof_enabled:0")), "3600 1", false, Settings("no", "always", "yes"))
                  .warnings.empty());
}

TEST(Fitness, SaysFromWhenAnAppendOnlyFileCounts) {
  const auto warnings = JudgeFitness(ServerInfo(Info("aof_enabled:0")), "").warnings;
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(Contains(warnings[0], "aof_rewrite_in_progress:0")) << warnings[0];
}

TEST(Fitness, WarnsOfAnAppendOnlyFileThatLagsBehind) {
  EXPECT_EQ(JudgeFitness(ServerInfo(Info()), "", false, {.appendfsync = "everysec"}).warnings.size(), 1u);
  EXPECT_EQ(JudgeFitness(ServerInfo(Info()), "", false, {.appendfsync = "no"}).warnings.size(), 1u);
  EXPECT_TRUE(JudgeFitness(ServerInfo(Info()), "", false, {.appendfsync = "always"}).warnings.empty());
  EXPECT_TRUE(JudgeFitness(ServerInfo(Info()), "", false, {.appendfsync = "?"}).warnings.empty())
      << "the user may not ask";
  EXPECT_TRUE(
      JudgeFitness(ServerInfo(Info("aof_enabled:0")), "3600 1", false, {.appendfsync = "everysec"}).warnings.empty());
}

}  // namespace
}  // namespace distlock::store
