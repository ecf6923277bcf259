// SPDX-License-Identifier: Apache-2.0
//
// Lints the metric table and checks that the text says what was counted.
#include "main/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

namespace distlock {
namespace {

using prometheus::MetricType;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(MetricTable, EveryFamilyFollowsTheNamingRules) {
  const Metrics metrics("1.2.3");
  std::set<std::string> names;
  for (const prometheus::MetricFamily& family : metrics.registry().Collect()) {
    const std::string& name = family.name;
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    EXPECT_THAT(name, MatchesRegex("distlock_([a-z]+_)*[a-z]+"));
    EXPECT_TRUE(family.help.ends_with('.')) << name << " has no help, or one that is no sentence";
    EXPECT_EQ(name.ends_with("_total"), family.type == MetricType::Counter) << name;
    // A name ends in its unit, which is a base unit. No other suffix may follow.
    EXPECT_THAT(name, Not(MatchesRegex(".*_(ms|us|millis|milliseconds|minutes|count|sum|bucket)(_.*)?")));
    EXPECT_FALSE(family.metric.empty()) << name << " has no series at the start";
  }
  EXPECT_GE(names.size(), 25u);
}

TEST(MetricTable, LabelsAreFewAndFixed) {
  const std::set<std::string> allowed = {"reason", "outcome", "path",     "cause", "verb", "certificate", "state",
                                         "kind",   "version", "decision", "unit",  "grpc", "hardened"};
  const Metrics metrics("1.2.3");
  size_t series = 0;
  for (const prometheus::MetricFamily& family : metrics.registry().Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_LE(metric.label.size(), 3u) << family.name;
      for (const auto& label : metric.label) EXPECT_EQ(allowed.count(label.name), 1u) << family.name;
      ++series;
    }
  }
  EXPECT_LE(series, 250u);
}

TEST(MetricTable, NamespacesThatAreNamedHaveSeriesOfTheirOwn) {
  EXPECT_THAT(Metrics("1.2.3").Text(), Not(HasSubstr("distlock_namespace_")));
  const Metrics metrics("1.2.3", {"shop", "b\"c"});
  ASSERT_EQ(metrics.of_namespace.size(), 2u);
  metrics.of_namespace[0].oldest_hold_seconds->Set(4);
  metrics.of_namespace[1].longest_queue->Set(7);
  EXPECT_THAT(metrics.Text(), HasSubstr("distlock_namespace_oldest_hold_seconds{namespace=\"shop\"} 4\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("distlock_namespace_longest_queue{namespace=\"b\\\"c\"} 7\n"));
}

TEST(Metrics, AnEnumIndexesItsOwnSeries) {
  Metrics metrics("1.2.3", {}, {.version = "1.51.1", .hardened = true});
  metrics.grants.Increment();
  metrics.refusals[core::RefusalReason::kCancelled].Increment(2);
  metrics.lost[core::LostReason::kDrained].Increment(3);
  metrics.releases[ReleaseOutcome::kGivenBack].Increment(4);
  metrics.renewals[RenewalOutcome::kUnanswered].Increment(5);
  metrics.handoffs[core::HandoffPath::kTend].Increment(6);
  metrics.store_commands[shard::Question::kList].Increment(7);
  metrics.store_errors[std::nullopt].Increment(8);
  metrics.streams_closed[rpc::StreamClose::kProtocol].Increment(9);
  metrics.store_redirects[store::ClusterEvents::Redirect::kClusterDown].Increment(10);
  metrics.slot_map_refreshes[store::ClusterEvents::Refresh::kFailed].Increment(11);
  metrics.quorum_rounds[store::QuorumRound::kJoin].Increment(13);
  metrics.store_latency_seconds[core::Verb::kRenew].Observe(0.003);
  metrics.waiters.Set(11);

  const std::string text = metrics.Text();
  for (const char* line : {
           "distlock_grants_total 1\n",
           "distlock_refusals_total{reason=\"cancelled\"} 2\n",
           "distlock_lost_total{reason=\"drained\"} 3\n",
           "distlock_releases_total{outcome=\"given_back\"} 4\n",
           "distlock_renewals_total{outcome=\"unanswered\"} 5\n",
           "distlock_handoffs_total{path=\"tend\"} 6\n",
           "distlock_store_commands_total{verb=\"list\"} 7\n",
           "distlock_store_errors_total{kind=\"unknown\"} 8\n",
           "distlock_streams_closed_total{cause=\"protocol\"} 9\n",
           "distlock_quorum_rounds_total{kind=\"join\"} 13\n",
           "distlock_store_latency_seconds_count{verb=\"renew\"} 1\n",
           "distlock_waiters 11\n",
           "distlock_refusals_total{reason=\"lock_held\"} 0\n",
           "distlock_build_info{grpc=\"1.51.1\",hardened=\"true\",version=\"1.2.3\"} 1\n",
           "# TYPE distlock_wait_seconds histogram\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace distlock
