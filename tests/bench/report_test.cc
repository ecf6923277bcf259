// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace distlock::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Sample Value(double value) {
  Sample sample;
  sample.values["pairs/s"] = value;
  return sample;
}

// Two rounds of ours beside a peer, which gives `second` in the second one.
Results Beside(const Sample& second) {
  SectionResult result;
  result.section.id = "peers";
  result.section.columns = {"pairs/s"};
  result.section.cases = {{"ours", nullptr}, {"etcd", nullptr}};
  result.section.comparisons = {{"ratio", Comparison::Kind::kRatio, "ours", "etcd", "pairs/s", "", ""}};
  result.rounds = {{{"ours", Value(10)}, {"etcd", Value(5)}}, {{"ours", Value(30)}, {"etcd", second}}};
  return {{}, {result}};
}

std::string Markdown(const Results& results) {
  std::ostringstream out;
  WriteMarkdown(results, out);
  return out.str();
}

TEST(Report, GivesMedianAndSpreadOfTheRounds) {
  const Results results = Beside(Value(10));
  EXPECT_TRUE(results.AllValid());
  EXPECT_THAT(Markdown(results), HasSubstr("| ours | **20.0** (10.0..30.0) |"));
  EXPECT_THAT(Markdown(results), HasSubstr("| ratio | **2.50** (2.00..3.00) |"));
}

TEST(Report, SaysWhatDidNotRunAndFailsNothing) {
  Sample absent;
  absent.not_run = "etcd is not\ninstalled";
  const Results results = Beside(absent);
  EXPECT_TRUE(results.AllValid());
  EXPECT_THAT(Markdown(results), HasSubstr("| etcd | NOT RUN: etcd is not installed |"));
  EXPECT_THAT(Markdown(results), HasSubstr("| ratio | NOT RUN |"));
  EXPECT_THAT(Markdown(results), Not(HasSubstr("INVALID")));
  std::ostringstream out;
  WriteJson(results, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["sections"]["peers"]["cases"], nlohmann::json({"ours", "etcd"}));
  EXPECT_EQ(json["sections"]["peers"]["rounds"][1]["etcd"]["not_run"], absent.not_run);
  EXPECT_EQ(json["sections"]["peers"]["rounds"][1]["ours"]["not_run"], "");
}

TEST(Report, CallsAnErrorOfOneRoundInvalid) {
  Sample broken;
  broken.error = "two holders";
  const Results results = Beside(broken);
  EXPECT_FALSE(results.AllValid());
  EXPECT_THAT(Markdown(results), HasSubstr("| etcd | INVALID: two holders |"));
  EXPECT_THAT(Markdown(results), HasSubstr("| ratio | INVALID |"));
}

TEST(Report, ShowsTheShareOfTheFloorOfTheSameRound) {
  SectionResult result;
  result.section.id = "lone";
  result.section.columns = {"pairs/s", "p50 µs"};
  result.section.cases = {{"broker", nullptr}, {"relay", nullptr}, {"hand-off", nullptr}};
  result.section.floors = {{"broker", "relay", "pairs/s", ""}, {"hand-off", "relay", "p50 µs", "op p50 µs"}};
  const auto sample = [](const char* column, double value) { return Sample{{{column, value}}, {}, {}}; };
  for (const double factor : {1.0, 3.0}) {
    Sample relay = sample("pairs/s", 100 * factor);
    relay.values["op p50 µs"] = 10 * factor;
    result.rounds.push_back(
        {{"broker", sample("pairs/s", 80 * factor)}, {"relay", relay}, {"hand-off", sample("p50 µs", 20 * factor)}});
  }
  const Results results{{}, {result}};
  EXPECT_THAT(Markdown(results), HasSubstr("| share of its floor | floor |"));
  EXPECT_THAT(Markdown(results), HasSubstr("| **0.80** (0.80..0.80) | pairs/s of: relay |"));
  EXPECT_THAT(Markdown(results), HasSubstr("| **0.50** (0.50..0.50) | p50 µs of: relay |")) << "less is better";
  std::ostringstream out;
  WriteJson(results, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["sections"]["lone"]["floors"]["broker"]["shares"], nlohmann::json({0.8, 0.8}));
}

}  // namespace
}  // namespace distlock::bench
