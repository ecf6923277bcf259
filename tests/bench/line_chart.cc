// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "bench/chart.h"
#include "bench/svg.h"

namespace distlock::bench {
namespace {

constexpr double kLeft = 72;
constexpr double kRight = 40;
constexpr double kPlotWidth = 560;
constexpr double kPlotHeight = 260;
constexpr double kHeader = 42;  // title
constexpr double kUnit = 34;    // of the y axis, above it
constexpr double kLegendStep = 18;
constexpr double kFooter = 52;     // numbers and title of the x axis
constexpr double kTickWidth = 48;  // numbers of the x axis closer than this would touch
constexpr size_t kColours = 6;

std::string Colour(size_t line) { return "s" + std::to_string(line % kColours); }

// Calls `visit` with each point that has a place.
template <typename Visit>
void ForDrawn(const LineChart& chart, Visit visit) {
  for (const Line& line : chart.lines) {
    for (const Point& point : line.points) {
      if (HasPlace(point)) visit(point);
    }
  }
}

void DrawAxes(const LineChart& chart, const std::set<double>& xs, const Scale& across, const Scale& up, double top,
              SvgWriter* svg) {
  for (const double tick : up.ticks()) {
    svg->Stroke(kLeft, up.At(tick), kLeft + kPlotWidth, up.At(tick), "grid");
    svg->Text(kLeft - 8, up.At(tick) + 4, ShortNumber(tick), "quiet", Anchor::kEnd);
  }
  const double bottom = top + kPlotHeight;
  double free = kLeft - kTickWidth;
  for (const double x : xs) {
    if (across.At(x) < free) continue;
    svg->Stroke(across.At(x), top, across.At(x), bottom, "grid");
    svg->Text(across.At(x), bottom + 18, ShortNumber(x), "quiet", Anchor::kMiddle);
    free = across.At(x) + kTickWidth;
  }
  svg->Text(kLeft + kPlotWidth / 2, bottom + 40, chart.x_title, "quiet", Anchor::kMiddle);
}

void DrawLine(const Line& line, const std::string& colour, const Scale& across, const Scale& up, SvgWriter* svg) {
  const Point* last = nullptr;
  for (const Point& point : line.points) {
    if (!HasPlace(point)) {
      last = nullptr;
      continue;
    }
    const double x = across.At(point.x);
    if (last != nullptr) svg->Stroke(across.At(last->x), up.At(last->value), x, up.At(point.value), colour + " thick");
    if (point.high > point.low) {
      svg->Stroke(x, up.At(point.low), x, up.At(point.high), colour);
      for (const double end : {point.low, point.high}) svg->Stroke(x - 3, up.At(end), x + 3, up.At(end), colour);
    }
    svg->Dot(x, up.At(point.value), colour);
    last = &point;
  }
}

}  // namespace

bool HasPlace(const Point& point) {
  return std::isfinite(point.x) && point.x > 0 && std::isfinite(point.value) && point.value >= 0;
}

std::string Svg(const LineChart& chart) {
  std::set<double> xs;
  double greatest = 0;
  ForDrawn(chart, [&](const Point& point) {
    xs.insert(point.x);
    greatest = std::max({greatest, point.value, point.high});
  });
  const double top = kHeader + kLegendStep * static_cast<double>(chart.lines.size()) + kUnit;
  double heading_width = std::max(1.3 * TextWidth(chart.title), TextWidth(chart.unit));
  for (const Line& line : chart.lines) heading_width = std::max(heading_width, 28 + TextWidth(line.label));
  const double width = std::max(kLeft + kPlotWidth + kRight, heading_width + 32);
  const Scale up = Scale::Linear(greatest, top + kPlotHeight, top);
  const Scale across =
      Scale::Between(xs.empty() ? 1 : *xs.begin(), xs.empty() ? 1 : *xs.rbegin(), kLeft + 20, kLeft + kPlotWidth - 20);

  SvgWriter svg(width, top + kPlotHeight + kFooter, chart.title);
  svg.Text(16, 28, chart.title, "title");
  svg.Text(16, top - 12, chart.unit, "quiet");
  DrawAxes(chart, xs, across, up, top, &svg);
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const double y = kHeader + kLegendStep * static_cast<double>(i) + 8;
    svg.Stroke(16, y, 36, y, Colour(i) + " thick");
    svg.Text(44, y + 4, chart.lines[i].label);
    DrawLine(chart.lines[i], Colour(i), across, up, &svg);
  }
  return svg.Finish();
}

}  // namespace distlock::bench
