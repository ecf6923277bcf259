// SPDX-License-Identifier: Apache-2.0
#include "bench/result_charts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "bench/chart.h"
#include "bench/growth_charts.h"

namespace distlock::bench {
namespace {

constexpr double kLinearReach = 30;  // with a greater ratio of the longest bar to the shortest, that would be a hair

Bar BarOf(const SectionResult& result, const std::string& name, const std::string& column) {
  Bar bar{.label = name, .ours = name.find("broker") != std::string::npos};
  const std::string why = WhyNoValues(result, name);
  const auto spread = SpreadOf(result, name, column);
  if (!why.empty() || !spread) {
    bar.note = why.empty() ? "no value" : why.substr(0, why.find(':'));
    return bar;
  }
  bar.value = spread->median;
  bar.low = spread->low;
  bar.high = spread->high;
  return bar;
}

std::vector<BarGroup> GroupsOf(const Results& results, const std::vector<std::string>& sections,
                               const std::string& column) {
  std::vector<BarGroup> groups;
  for (const SectionResult& result : results.sections) {
    if (std::find(sections.begin(), sections.end(), result.section.id) == sections.end()) continue;
    BarGroup group{.label = result.section.title, .bars = {}};
    for (const Case& c : result.section.cases) group.bars.push_back(BarOf(result, c.name, column));
    groups.push_back(std::move(group));
  }
  return groups;
}

bool NeedsLogarithm(const BarChart& chart) {
  double least = 0;
  double greatest = 0;
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) {
      if (!bar.note.empty() || bar.value <= 0) continue;
      least = least == 0 ? bar.value : std::min(least, bar.value);
      greatest = std::max(greatest, bar.value);
    }
  }
  return least > 0 && greatest / least > kLinearReach;
}

void Write(const std::string& svg, const std::string& path) {
  std::ofstream file(path);
  file << svg;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

// None of these sections was run: no file.
void Write(const BarChart& chart, const std::string& path) {
  if (!chart.groups.empty()) Write(Svg(chart), path);
}

}  // namespace

void WriteCharts(const Results& results, const std::string& folder, std::ostream& problems) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw std::runtime_error("cannot make " + folder + ": " + failed.message());
  Write({.title = "Locks taken and given back, nobody else wanting them",
         .unit = "pairs/s, more is better: median of the rounds and min..max",
         .groups = GroupsOf(results, {"lone", "multiplexed", "peers"}, "pairs/s")},
        folder + "/throughput.svg");
  BarChart handoff{.title = "Hand-off: from release called to the next one's grant seen",
                   .unit = "µs, less is better: p50, median of the rounds and min..max",
                   .groups = GroupsOf(results, {"handoff-hot", "handoff-idle", "peers-handoff"}, "p50 µs")};
  handoff.logarithmic = NeedsLogarithm(handoff);
  if (handoff.logarithmic) handoff.unit += "; logarithmic scale";
  Write(handoff, folder + "/handoff.svg");
  const GrowthCharts growth = ChartsOfGrowth(results);
  for (const GrowthChart& chart : growth.drawn) Write(Svg(chart.chart), folder + "/" + chart.file);
  for (const std::string& sentence : growth.left_out) problems << sentence << '\n';
}

}  // namespace distlock::bench
