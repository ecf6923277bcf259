// SPDX-License-Identifier: Apache-2.0
#include "bench/growth_charts.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace distlock::bench {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// One line: a column of a section.
struct Source {
  std::string section;
  std::string column;
  std::string label;
};

struct Plan {
  std::string file;
  std::string title;
  std::string x_title;
  std::string unit;
  std::vector<Source> sources;
};

std::vector<Plan> Plans() {
  return {{"growth-leases.svg",
           "CPU of taking a lock and giving it back, beside so many held leases",
           "held leases, logarithmic scale",
           "µs of CPU per pair: median of the rounds and min..max",
           {{"growth-leases", "daemon CPU", "broker; other sessions hold the leases, at most 10 000 each"},
            {"growth-leases", "redis CPU", "Redis; other sessions hold the leases, at most 10 000 each"},
            {"growth-session", "daemon CPU", "broker; the measured session holds them all"},
            {"growth-session", "redis CPU", "Redis; the measured session holds them all"}}},
          {"growth-memory.svg",
           "Memory of a held lease",
           "held leases, logarithmic scale",
           "bytes per lease: median of the rounds and min..max",
           {{"growth-leases", "daemon B/lease", "broker: growth of its resident memory"},
            {"growth-leases", "redis B/lease", "Redis: growth of used_memory"}}},
          {"growth-waiters.svg",
           "Hand-off of one lock that so many wait for",
           "waiters, logarithmic scale",
           "µs from release called to grant seen: median of the rounds and min..max",
           {{"growth-waiters", "p50 µs", "p50"}, {"growth-waiters", "p99 µs", "p99"}}},
          {"growth-waiters-cpu.svg",
           "CPU of a hand-off of one lock that so many wait for",
           "waiters, logarithmic scale",
           "µs of CPU per hand-off: median of the rounds and min..max",
           {{"growth-waiters", "daemon CPU", "broker"}, {"growth-waiters", "redis CPU", "Redis"}}}};
}

const SectionResult* Find(const Results& results, const std::string& section) {
  const auto found = std::find_if(results.sections.begin(), results.sections.end(),
                                  [&](const SectionResult& result) { return result.section.id == section; });
  return found == results.sections.end() ? nullptr : &*found;
}

// std::nullopt: the name is not a number.
std::optional<double> CountOf(const std::string& name) {
  uint64_t count = 0;
  const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), count);
  if (problem != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return static_cast<double>(count);
}

std::vector<Point> PointsOf(const SectionResult& result, const std::string& column) {
  std::vector<Point> points;
  for (const Case& c : result.section.cases) {
    const auto x = CountOf(c.name);
    if (!x) continue;
    const auto spread = SpreadOf(result, c.name, column);
    if (spread && WhyNoValues(result, c.name).empty()) {
      points.push_back({.x = *x, .value = spread->median, .low = spread->low, .high = spread->high});
    } else {
      points.push_back({.x = *x, .value = kNone});
    }
  }
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  return points;
}

}  // namespace

GrowthCharts ChartsOfGrowth(const Results& results) {
  GrowthCharts charts;
  for (Plan& plan : Plans()) {
    LineChart chart{.title = plan.title, .x_title = plan.x_title, .unit = plan.unit, .lines = {}};
    bool was_run = false;
    for (const Source& source : plan.sources) {
      const SectionResult* result = Find(results, source.section);
      if (result == nullptr) continue;
      was_run = true;
      Line line{.label = source.label, .points = PointsOf(*result, source.column)};
      if (std::count_if(line.points.begin(), line.points.end(), HasPlace) >= 2) {
        chart.lines.push_back(std::move(line));
      } else {
        charts.left_out.push_back(plan.file + " has no line of \"" + source.column + "\" of " + source.section +
                                  ": fewer than two cases gave a value");
      }
    }
    if (!chart.lines.empty()) {
      charts.drawn.push_back({plan.file, std::move(chart)});
    } else if (was_run) {
      charts.left_out.push_back(plan.file + " is not drawn: no line has two points");
    }
  }
  return charts;
}

}  // namespace distlock::bench
