// SPDX-License-Identifier: Apache-2.0
//
// Which growth results become which line chart: what the name of a case counts is its x. Pure functions of their
// argument; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/chart.h"
#include "bench/report.h"

namespace distlock::bench {

struct GrowthChart {
  std::string file;  // its name
  LineChart chart;
};

struct GrowthCharts {
  std::vector<GrowthChart> drawn;
  std::vector<std::string> left_out;  // sentences: which line or chart is missing, and why
};

// Of the sections that were run. A case that is invalid, did not run or has no value leaves a gap in its lines. A line
// shows growth from two points on, and a chart needs a line.
GrowthCharts ChartsOfGrowth(const Results& results);

}  // namespace distlock::bench
