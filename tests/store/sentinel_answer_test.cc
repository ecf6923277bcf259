// SPDX-License-Identifier: Apache-2.0
//
// Answers of sentinels, read and judged.
#include "store/sentinel/sentinel_answer.h"

#include <gtest/gtest.h>

#include "parse_reply.h"
#include "store/sentinel/sentinel_fitness.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SentinelAnswer, Master) {
  SentinelReport report;
  SetFacts facts;
  ASSERT_TRUE(ReadMaster(
      *Parse(ArrayOf({"name", "locks", "ip", "10.0.0.7", "port", "6380", "flags", "master,failover_in_progress",
                      "config-epoch", "12", "num-slaves", "2", "quorum", "2", "down-after-milliseconds", "30000"})),
      report, facts));
  EXPECT_EQ(report.primary, (ServerAddress{.host = "10.0.0.7", .port = 6380}));
  EXPECT_EQ(report.epoch, 12u);
  EXPECT_EQ(facts.replica_count, 2);
  EXPECT_EQ(facts.quorum, 2);
  EXPECT_EQ(facts.down_after, seconds(30));
  EXPECT_TRUE(facts.failing_over);
}

TEST(SentinelAnswer, WhatIsNoAnswerIsRefused) {
  SentinelReport report;
  SetFacts facts;
  for (const std::string& bad : {
           ArrayOf({}),
           ArrayOf({"ip"}),
           ArrayOf({"ip", "h", "port", "1"}),
           ArrayOf({"ip", "h", "config-epoch", "1"}),
           ArrayOf({"ip", "", "port", "1", "config-epoch", "1"}),
           ArrayOf({"ip", "h", "port", "0", "config-epoch", "1"}),
           ArrayOf({"ip", "h", "port", "1", "config-epoch", "-1"}),
           std::string("$2\r\nok\r\n"),
           std::string(":1\r\n"),
           std::string("*2\r\n:1\r\n:2\r\n"),
       }) {
    EXPECT_FALSE(ReadMaster(*Parse(bad), report, facts)) << bad;
  }
  EXPECT_FALSE(ReadAddress(*Parse("*-1\r\n")).has_value());
  EXPECT_FALSE(ReadAddress(*Parse(ArrayOf({"h"}))).has_value());
  EXPECT_FALSE(ReadAddress(*Parse(ArrayOf({"h", "70000"}))).has_value());
  EXPECT_EQ(ReadAddress(*Parse(ArrayOf({"h", "7"}))), (ServerAddress{.host = "h", .port = 7}));
}

TEST(SentinelAnswer, Lists) {
  const std::string list = Cat("*3\r\n", ArrayOf({"name", "a", "ip", "h1", "port", "7"}), ":5\r\n",
                               ArrayOf({"name", "b", "ip", "h2", "port", "8", "slave-priority", "20", "master-host",
                                        "h1", "master-port", "7", "flags", "s_down,slave,disconnected"}));
  EXPECT_EQ(ReadPeers(*Parse(list)),
            (std::vector<ServerAddress>{{.host = "h1", .port = 7}, {.host = "h2", .port = 8}}));
  EXPECT_EQ(ReadNames(*Parse(list)), (std::vector<std::string>{"a", "b"}));
  const auto replicas = ReadReplicas(*Parse(list));
  ASSERT_EQ(replicas.size(), 2u);
  EXPECT_EQ(replicas[0].priority, 100);
  EXPECT_TRUE(replicas[0].up);
  EXPECT_EQ(replicas[1].priority, 20);
  EXPECT_EQ(replicas[1].follows, replicas[0].address);
  EXPECT_FALSE(replicas[1].up);
}

SetFacts Healthy() {
  const ServerAddress primary{.host = "p"};
  SetFacts facts{.replica_count = 2, .quorum = 2, .down_after = seconds(5)};
  facts.replicas = {{.address = {.host = "r1"}, .follows = primary}, {.address = {.host = "r2"}, .follows = primary}};
  return facts;
}

Fitness Judged(const SetFacts& facts, core::Duration ttl = seconds(15), int wait = 0) {
  return JudgeSet(facts, {.primary_name = "locks", .usual_ttl = ttl, .wait_replicas = wait});
}

TEST(SentinelFitness, AHealthySetNeedsNoWords) {
  const Fitness fitness = Judged(Healthy(), seconds(15), 2);
  EXPECT_TRUE(fitness.status.ok()) << fitness.status;
  EXPECT_TRUE(fitness.warnings.empty());
}

TEST(SentinelFitness, LeasesThatDoNotSurviveAFailoverAreWarnedOf) {
  SetFacts facts = Healthy();
  facts.down_after = seconds(30);
  const Fitness fitness = Judged(facts);
  ASSERT_EQ(fitness.warnings.size(), 1u);
  EXPECT_NE(fitness.warnings[0].find("15000 ms"), std::string::npos) << fitness.warnings[0];
  EXPECT_NE(fitness.warnings[0].find("30000 ms"), std::string::npos) << fitness.warnings[0];
  EXPECT_NE(fitness.warnings[0].find("33000 ms"), std::string::npos) << fitness.warnings[0];
  facts.down_after = seconds(12);
  EXPECT_EQ(Judged(facts).warnings.size(), 1u);
  facts.down_after = milliseconds(11'999);
  EXPECT_TRUE(Judged(facts).warnings.empty());
}

TEST(SentinelFitness, MoreConfirmationsThanReplicasAreRefused) {
  const Fitness fitness = Judged(Healthy(), seconds(15), 3);
  EXPECT_EQ(fitness.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(View(fitness.status.message()), "--wait-replicas is 3, but 'locks' has 2 replicas"))
      << fitness.status;
}

TEST(SentinelFitness, PrioritiesThatDifferAreWarnedOf) {
  SetFacts facts = Healthy();
  facts.replicas->at(1).priority = 50;
  const Fitness fitness = Judged(facts);
  ASSERT_EQ(fitness.warnings.size(), 1u);
  EXPECT_NE(fitness.warnings[0].find("r2:6379 has 50"), std::string::npos) << fitness.warnings[0];
}

TEST(SentinelFitness, ChainsOfReplicasAreTroubleThatMayPass) {
  SetFacts facts = Healthy();
  facts.replicas->at(1).follows = facts.replicas->at(0).address;
  EXPECT_EQ(Judged(facts).status.code(), absl::StatusCode::kUnavailable);
  // In a failover the others follow the promoted one before this sentinel calls it the primary.
  facts.failing_over = true;
  EXPECT_TRUE(Judged(facts).status.ok());
  facts.failing_over = false;
  facts.replicas->at(1).up = false;
  EXPECT_TRUE(Judged(facts).status.ok()) << "what it followed when it was last seen";
}

}  // namespace
}  // namespace distlock::store
