// SPDX-License-Identifier: Apache-2.0
#include "bench/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "bench/svg.h"

namespace distlock::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// All numbers of the attributes whose name matches.
std::vector<double> Numbers(const std::string& svg, const std::string& attribute) {
  const std::regex pattern(" (?:" + attribute + ")=\"([^\"]*)\"");
  std::vector<double> numbers;
  for (std::sregex_iterator found(svg.begin(), svg.end(), pattern), end; found != end; ++found) {
    numbers.push_back(std::stod((*found)[1]));
  }
  return numbers;
}

// Every coordinate and the far end of every rectangle lies within the view box.
void ExpectWithinViewBox(const std::string& svg) {
  std::smatch box;
  ASSERT_TRUE(std::regex_search(svg, box, std::regex("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
  const double width = std::stod(box[1]);
  const double height = std::stod(box[2]);
  for (const double x : Numbers(svg, "x|x1|x2|cx")) EXPECT_TRUE(x >= 0 && x <= width) << x;
  for (const double y : Numbers(svg, "y|y1|y2|cy")) EXPECT_TRUE(y >= 0 && y <= height) << y;
  const std::regex rect("<rect x=\"([^\"]*)\" y=\"([^\"]*)\" width=\"([^\"]*)\" height=\"([^\"]*)\"");
  for (std::sregex_iterator found(svg.begin(), svg.end(), rect), end; found != end; ++found) {
    EXPECT_GE(std::stod((*found)[3]), 0);
    EXPECT_LE(std::stod((*found)[1]) + std::stod((*found)[3]), width);
    EXPECT_LE(std::stod((*found)[2]) + std::stod((*found)[4]), height);
  }
}

BarChart SomeBars() {
  return {.title = "Taken & given back",
          .unit = "pairs/s",
          .groups = {{"lone <clients>",
                      {{.label = "1 direct, \"SET NX\"", .value = 12'345, .low = 11'000, .high = 14'000},
                       {.label = "1 through the broker", .value = 3, .low = 3, .high = 3, .ours = true}}},
                     {"peers", {{.label = "etcd", .note = "NOT RUN"}}}}};
}

TEST(BarChart, ShowsEveryTextEscaped) {
  const std::string svg = Svg(SomeBars());
  for (const char* text : {"Taken &amp; given back", "pairs/s", "lone &lt;clients&gt;", "1 direct, &quot;SET NX&quot;",
                           "1 through the broker", "peers", "etcd", "NOT RUN"}) {
    EXPECT_THAT(svg, HasSubstr(">" + std::string(text) + "<"));
  }
  EXPECT_THAT(svg, Not(HasSubstr("<clients>")));
}

TEST(BarChart, WritesValuesAtTheBars) {
  const std::string svg = Svg(SomeBars());
  EXPECT_THAT(svg, HasSubstr(">12.3 k<"));
  EXPECT_THAT(svg, HasSubstr(">3<"));
}

TEST(BarChart, StaysWithinItsViewBox) {
  BarChart chart = SomeBars();
  ExpectWithinViewBox(Svg(chart));
  chart.logarithmic = true;
  ExpectWithinViewBox(Svg(chart));
  chart.title = std::string(300, 'x');
  chart.groups[0].bars[0].label = std::string(200, 'y');
  ExpectWithinViewBox(Svg(chart));
}

TEST(BarChart, LogarithmicBarsGrowByTheSameForTheSameRatio) {
  const std::string svg =
      Svg(BarChart{.groups = {{"", {{.value = 10}, {.value = 100}, {.value = 1000}}}}, .logarithmic = true});
  std::vector<double> widths = Numbers(svg, "width");
  ASSERT_EQ(widths.size(), 5u);  // of the picture, its page, and the bars
  EXPECT_NEAR(widths[3] - widths[2], widths[4] - widths[3], 0.2);
}

TEST(BarChart, DrawsNothingForWhatHasNoPlace) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const bool logarithmic : {false, true}) {
    const std::string svg = Svg(BarChart{.title = "empty",
                                         .groups = {{"", {{.value = 0}, {.value = infinite}, {.value = std::nan("")}}}},
                                         .logarithmic = logarithmic});
    ExpectWithinViewBox(svg);
    EXPECT_THAT(svg, Not(HasSubstr("nan\"")));
    EXPECT_THAT(svg, Not(HasSubstr("inf\"")));
  }
  ExpectWithinViewBox(Svg(BarChart{}));
}

LineChart SomeLines() {
  return {.title = "Growth",
          .x_title = "waiters",
          .unit = "µs",
          .lines = {{"a < b", {{.x = 1, .value = 5}, {.x = 1000, .value = 7, .low = 6, .high = 9}}},
                    {"flat", {{.x = 10, .value = 1}, {.x = 100, .value = 1}}}}};
}

TEST(LineChart, ShowsEveryTextEscaped) {
  const std::string svg = Svg(SomeLines());
  for (const char* text : {"Growth", "waiters", "µs", "a &lt; b", "flat", "1", "10", "100", "1000"}) {
    EXPECT_THAT(svg, HasSubstr(">" + std::string(text) + "<"));
  }
}

TEST(LineChart, HasALogarithmicXAxisAndMoreIsHigher) {
  const std::string svg = Svg(SomeLines());
  const std::vector<double> x = Numbers(svg, "cx");
  const std::vector<double> y = Numbers(svg, "cy");
  ASSERT_EQ(x.size(), 4u);  // 1 and 1000, then 10 and 100
  EXPECT_NEAR((x[1] - x[0]) / 3, x[3] - x[2], 0.2);
  EXPECT_LT(y[1], y[0]);
  EXPECT_EQ(y[2], y[3]);
}

TEST(LineChart, BreaksALineAtAPointWithoutAPlace) {
  LineChart chart = SomeLines();
  chart.lines = {{"", {{.x = 1, .value = 5}, {.x = 10, .value = 6}, {.x = 100, .value = 7}, {.x = 1000, .value = 8}}}};
  const auto strokes = [&] { return Numbers(Svg(chart), "x1").size(); };
  const size_t whole = strokes();
  for (const double nowhere : {std::nan(""), -1.0}) {
    chart.lines[0].points[1].value = nowhere;
    EXPECT_EQ(Numbers(Svg(chart), "cx").size(), 3u);
    EXPECT_EQ(strokes(), whole - 3);  // two pieces of the line, and the tick of that x
  }
}

TEST(LineChart, StaysWithinItsViewBox) {
  LineChart chart = SomeLines();
  ExpectWithinViewBox(Svg(chart));
  chart.lines[0].label = std::string(200, 'y');
  chart.lines[1].points = {{.x = 0, .value = 1}, {.x = -3, .value = 1}, {.x = 5, .value = std::nan("")}};
  ExpectWithinViewBox(Svg(chart));
  ExpectWithinViewBox(Svg(LineChart{}));
  ExpectWithinViewBox(Svg(LineChart{.lines = {{"one point", {{.x = 7, .value = 7}}}}}));
}

TEST(ShortNumber, HasThreeDigits) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.123), "0.12");
  EXPECT_EQ(ShortNumber(20), "20");
  EXPECT_EQ(ShortNumber(1234.4), "1234");
  EXPECT_EQ(ShortNumber(180'000), "180 k");
  EXPECT_EQ(ShortNumber(999'900), "1 M");
  EXPECT_EQ(ShortNumber(2'500'000), "2.5 M");
}

}  // namespace
}  // namespace distlock::bench
