// SPDX-License-Identifier: Apache-2.0
#include "bench/growth_charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

#include "bench/result_charts.h"

namespace distlock::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Sample CpuOf(double daemon, double redis) {
  Sample sample;
  sample.values = {{"daemon CPU", daemon}, {"redis CPU", redis}};
  return sample;
}

Sample Broken() {
  Sample sample = CpuOf(999, 999);
  sample.error = "two holders";
  return sample;
}

SectionResult Section(const std::string& id, const std::vector<std::map<std::string, Sample>>& rounds) {
  SectionResult result;
  result.section.id = id;
  for (const auto& [name, sample] : rounds.front()) result.section.cases.push_back({name, nullptr});
  result.rounds = rounds;
  return result;
}

// Three cases, of which the one in the middle may be another.
Results Leases(const Sample& middle) {
  return {{},
          {Section("growth-session", {{{"1000", CpuOf(10, 20)}, {"100000", CpuOf(16, 22)}, {"20000", middle}},
                                      {{"1000", CpuOf(12, 20)}, {"100000", CpuOf(18, 22)}, {"20000", middle}}})}};
}

std::vector<double> Xs(const Line& line) {
  std::vector<double> xs;
  for (const Point& point : line.points) xs.push_back(point.x);
  return xs;
}

TEST(GrowthCharts, HasTheMedianAndSpreadOfEachCaseAtItsCount) {
  const GrowthCharts charts = ChartsOfGrowth(Leases(CpuOf(14, 21)));
  EXPECT_THAT(charts.left_out, IsEmpty());
  ASSERT_THAT(charts.drawn, SizeIs(1));
  EXPECT_EQ(charts.drawn[0].file, "growth-leases.svg");
  const std::vector<Line>& lines = charts.drawn[0].chart.lines;
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0].label, HasSubstr("broker"));
  EXPECT_THAT(lines[1].label, HasSubstr("Redis"));
  EXPECT_THAT(Xs(lines[0]), ElementsAre(1'000, 20'000, 100'000));  // not as the names are sorted
  EXPECT_EQ(lines[0].points[2].value, 17);
  EXPECT_EQ(lines[0].points[2].low, 16);
  EXPECT_EQ(lines[0].points[2].high, 18);
  EXPECT_EQ(lines[1].points[1].value, 21);
}

TEST(GrowthCharts, LeavesAGapForWhatGaveNothing) {
  Sample absent;
  absent.not_run = "no memory";
  for (const Sample& middle : {Broken(), absent, Sample{}, CpuOf(std::numeric_limits<double>::infinity(), -1)}) {
    const GrowthCharts charts = ChartsOfGrowth(Leases(middle));
    ASSERT_THAT(charts.drawn, SizeIs(1));
    for (const Line& line : charts.drawn[0].chart.lines) {
      ASSERT_THAT(line.points, SizeIs(3));
      EXPECT_FALSE(HasPlace(line.points[1]));
      EXPECT_TRUE(HasPlace(line.points[0]) && HasPlace(line.points[2]));
    }
  }
}

TEST(GrowthCharts, DrawsNoLineOfOnePointAndSaysSo) {
  Results results = Leases(CpuOf(14, 21));
  results.sections.push_back(Section("growth-waiters", {{{"10", CpuOf(1, 2)}, {"100", Broken()}}}));
  const GrowthCharts charts = ChartsOfGrowth(results);
  ASSERT_THAT(charts.drawn, SizeIs(1));
  EXPECT_EQ(charts.drawn[0].file, "growth-leases.svg");
  EXPECT_THAT(charts.left_out, ::testing::Contains(AllOf(HasSubstr("growth-waiters-cpu.svg"), HasSubstr("redis CPU"),
                                                         HasSubstr("fewer than two"))));
  EXPECT_THAT(charts.left_out, ::testing::Contains(HasSubstr("growth-waiters-cpu.svg is not drawn")));
}

TEST(GrowthCharts, HasNothingToSayOfSectionsThatWereNotRun) {
  const GrowthCharts charts = ChartsOfGrowth({{}, {Section("lone", {{{"1 session", CpuOf(1, 2)}}})}});
  EXPECT_THAT(charts.drawn, IsEmpty());
  EXPECT_THAT(charts.left_out, IsEmpty());
}

TEST(ResultCharts, WritesTheFilesThatCanBeDrawnAndWhatCannot) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "distlock-growth-charts-test";
  std::filesystem::remove_all(folder);
  Results results = Leases(CpuOf(14, 21));
  results.sections.push_back(Section("growth-waiters", {{{"10", Broken()}}}));
  std::ostringstream problems;
  WriteCharts(results, folder.string(), problems);
  EXPECT_THAT(problems.str(), HasSubstr("growth-waiters.svg is not drawn: no line has two points\n"));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().filename());
  EXPECT_THAT(files, ElementsAre("growth-leases.svg"));
  std::ifstream file(folder / "growth-leases.svg");
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  for (const char* text : {"held leases", "µs of CPU per pair", ">20 k<", "prefers-color-scheme:dark"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace distlock::bench
