// SPDX-License-Identifier: Apache-2.0
#include "main/recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace distlock {
namespace {

struct Case {
  core::Verb verb;
  const char* label;
};

class EachVerb : public testing::TestWithParam<Case> {};

TEST_P(EachVerb, IsCountedAndTimedUnderItsOwnLabel) {
  Metrics metrics("test");
  Recorder recorder(metrics, 1);
  recorder.OnStoreReply(GetParam().verb, std::chrono::milliseconds(3), true);

  const std::string text = metrics.Text();
  const std::string label = std::string("{verb=\"") + GetParam().label + "\"} ";
  EXPECT_NE(text.find("distlock_store_commands_total" + label + "1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("distlock_store_latency_seconds_count" + label + "1\n"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Recorder, EachVerb,
                         testing::Values(Case{core::Verb::kAcquire, "acquire"},
                                         Case{core::Verb::kAcquireAll, "acquire_all"},
                                         Case{core::Verb::kRenew, "renew"}, Case{core::Verb::kRelease, "release"},
                                         Case{core::Verb::kWithdraw, "withdraw"}, Case{core::Verb::kTend, "tend"},
                                         Case{core::Verb::kWatch, "watch"}, Case{core::Verb::kDowngrade, "downgrade"},
                                         Case{core::Verb::kForce, "force"}, Case{core::Verb::kAdopt, "adopt"},
                                         Case{core::Verb::kWanted, "wanted"}),
                         [](const auto& verb) { return std::string(verb.param.label); });

TEST(RecorderTest, WhatNodesOfAClusterAnswerIsCountedByKind) {
  using Events = store::ClusterEvents;
  Metrics metrics("test");
  Recorder recorder(metrics, 1);
  EXPECT_NE(metrics.Text().find("distlock_store_slot_map_time_seconds 0\n"), std::string::npos);
  recorder.OnRedirect(Events::Redirect::kTryAgain);
  recorder.OnSlotMapRefresh(Events::Refresh::kDoubted);
  EXPECT_NE(metrics.Text().find("distlock_store_slot_map_time_seconds 0\n"), std::string::npos) << "not adopted";
  recorder.OnSlotMapRefresh(Events::Refresh::kAdopted);
  const std::string text = metrics.Text();
  for (const char* series :
       {"redirects_total{kind=\"tryagain\"} 1\n", "redirects_total{kind=\"moved\"} 0\n",
        "slot_map_refreshes_total{outcome=\"doubted\"} 1\n", "slot_map_refreshes_total{outcome=\"adopted\"} 1\n"}) {
    EXPECT_NE(text.find(std::string("distlock_store_") + series), std::string::npos) << series << text;
  }
  EXPECT_EQ(text.find("distlock_store_slot_map_time_seconds 0\n"), std::string::npos);
}

TEST(RecorderTest, RoundsOfAQuorumAreCountedAndItsServersThatCount) {
  Metrics metrics("test");
  Recorder recorder(metrics, 1);
  recorder.OnQuorumRounds(store::QuorumRound::kYield, 2);
  using State = store::NodeStatus::State;
  recorder.OnNodeStatus({.number = 0, .state = State::kUp, .independent = true});
  recorder.OnNodeStatus({.number = 1, .state = State::kUp, .independent = true, .not_counted = "its clock was set"});
  recorder.OnNodeStatus({.number = 2, .state = State::kDown, .independent = true});
  const std::string text = metrics.Text();
  EXPECT_NE(text.find("distlock_quorum_rounds_total{kind=\"yield\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("distlock_quorum_nodes_counted 1\n"), std::string::npos) << text;

  recorder.OnNodeStatus({.number = 1, .state = State::kUp, .independent = true});
  EXPECT_NE(metrics.Text().find("distlock_quorum_nodes_counted 2\n"), std::string::npos);
  // A server of a store that is no quorum.
  recorder.OnNodeStatus({.number = 3, .state = State::kUp});
  EXPECT_NE(metrics.Text().find("distlock_quorum_nodes_counted 2\n"), std::string::npos);
}

TEST(RecorderTest, AQuorumIsWritableWhileMostOfItsServersAreUp) {
  using State = store::NodeStatus::State;
  Metrics metrics("test");
  Recorder recorder(metrics, 1);
  const auto is_writable = [&metrics] {
    return metrics.Text().find("distlock_store_writable 1\n") != std::string::npos;
  };
  for (int number = 0; number < 3; ++number) {
    recorder.OnNodeStatus({.number = number, .state = State::kUp, .independent = true});
  }
  recorder.OnNodeStatus({.number = 2, .state = State::kDown, .independent = true});
  EXPECT_TRUE(is_writable());
  recorder.OnNodeStatus({.number = 1, .state = State::kDown, .independent = true});
  EXPECT_FALSE(is_writable());
}

TEST(RecorderTest, TheLargestSkewOfAServersClockIsShownWhicheverWayItIsOff) {
  Metrics metrics("test");
  Recorder recorder(metrics, 1);
  using std::chrono::milliseconds;
  recorder.OnNodeStatus({.number = 0, .clock_skew = milliseconds(20)});
  recorder.OnNodeStatus({.number = 1, .clock_skew = milliseconds(-250)});
  recorder.OnNodeStatus({.number = 2});
  const auto shows = [&metrics](std::string_view value) {
    const std::string line = "distlock_store_clock_skew_seconds " + std::string(value) + "\n";
    return metrics.Text().find(line) != std::string::npos;
  };
  EXPECT_TRUE(shows("0.25")) << metrics.Text();
  recorder.OnNodeStatus({.number = 1, .gone = true});
  EXPECT_TRUE(shows("0.02")) << metrics.Text();
}

}  // namespace
}  // namespace distlock
