// SPDX-License-Identifier: Apache-2.0
//
// Charts as SVG text, for light and dark pages alike: each has a background of its own and follows the reader's colour
// scheme. Bars lie in groups, one below the other; lines have a logarithmic x axis. Pure functions of their argument;
// any thread.
#pragma once

#include <string>
#include <vector>

namespace distlock::bench {

struct Bar {
  std::string label;
  double value = 0;
  double low = 0;  // a whisker from low to high, unless they are equal
  double high = 0;
  bool ours = false;  // drawn in the strong colour
  std::string note;   // not empty: stands there instead of the bar
};

struct BarGroup {
  std::string label;
  std::vector<Bar> bars;
};

struct BarChart {
  std::string title;
  std::string unit;
  std::vector<BarGroup> groups;
  bool logarithmic = false;  // then only positive values have bars
};

struct Point {
  double x = 0;
  double value = 0;
  double low = 0;
  double high = 0;
};

struct Line {
  std::string label;
  std::vector<Point> points;  // growing x
};

// A point without a place, see HasPlace, is a gap in its line.
struct LineChart {
  std::string title;
  std::string x_title;
  std::string unit;  // of the values
  std::vector<Line> lines;
};

// x has a logarithm, and the value is finite and not below the axis, which begins at 0.
bool HasPlace(const Point& point);

std::string Svg(const BarChart& chart);
std::string Svg(const LineChart& chart);

}  // namespace distlock::bench
