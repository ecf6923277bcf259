// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "bench/chart.h"
#include "bench/svg.h"

namespace distlock::bench {
namespace {

constexpr double kMargin = 16;
constexpr double kPlotWidth = 460;
constexpr double kValueWidth = 70;  // right of the longest bar
constexpr double kHeader = 64;      // title and unit
constexpr double kGroupHeight = 28;
constexpr double kBarStep = 20;
constexpr double kBarHeight = 13;
constexpr double kAxisHeight = 28;

// Calls `visit` with each bar that has a place on the scale.
template <typename Visit>
void ForDrawn(const BarChart& chart, Visit visit) {
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) {
      const bool has_place = std::isfinite(bar.value) && (bar.value > 0 || !chart.logarithmic);
      if (bar.note.empty() && has_place) visit(bar);
    }
  }
}

Scale ScaleOf(const BarChart& chart, double from_px) {
  double least = 0;
  double greatest = 0;
  ForDrawn(chart, [&](const Bar& bar) {
    greatest = std::max({greatest, bar.value, bar.high});
    const double low = bar.low > 0 ? std::min(bar.low, bar.value) : bar.value;
    least = least == 0 ? low : std::min(least, low);
  });
  const double to_px = from_px + kPlotWidth;
  // There is no zero to begin with: a bit of a bar is left for the least one.
  if (chart.logarithmic && least > 0) return Scale::Powers(least / 3, greatest, from_px, to_px);
  return Scale::Linear(greatest, from_px, to_px);
}

double LabelWidth(const BarChart& chart) {
  double width = 0;
  for (const BarGroup& group : chart.groups) {
    for (const Bar& bar : group.bars) width = std::max(width, TextWidth(bar.label));
  }
  return width;
}

void DrawBar(const Bar& bar, const Scale& scale, double from, double y, SvgWriter* svg) {
  const double middle = y + kBarHeight / 2;
  svg->Text(from - 8, middle + 4, bar.label, "", Anchor::kEnd);
  if (!bar.note.empty()) return svg->Text(from + 6, middle + 4, bar.note, "quiet");
  double end = scale.At(bar.value);
  svg->Rect(from, y, end - from, kBarHeight, bar.ours ? "ours" : "other");
  if (bar.high > bar.low) {
    const double low = scale.At(bar.low);
    const double high = scale.At(bar.high);
    svg->Stroke(low, middle, high, middle, "whisker");
    for (const double x : {low, high}) svg->Stroke(x, middle - 3, x, middle + 3, "whisker");
    end = std::max(end, high);
  }
  svg->Text(end + 6, middle + 4, ShortNumber(bar.value));
}

}  // namespace

std::string Svg(const BarChart& chart) {
  double height = kHeader + kAxisHeight;
  double heading_width = std::max(1.3 * TextWidth(chart.title), TextWidth(chart.unit));
  for (const BarGroup& group : chart.groups) {
    height += kGroupHeight + kBarStep * static_cast<double>(group.bars.size());
    heading_width = std::max(heading_width, TextWidth(group.label));
  }
  const double from = kMargin + LabelWidth(chart) + 8;
  const double width = std::max(from + kPlotWidth + kValueWidth, heading_width + 2 * kMargin);
  const Scale scale = ScaleOf(chart, from);
  const double bottom = height - kAxisHeight;

  SvgWriter svg(width, height, chart.title);
  svg.Text(kMargin, 28, chart.title, "title");
  svg.Text(kMargin, 48, chart.unit, "quiet");
  for (const double tick : scale.ticks()) {
    svg.Stroke(scale.At(tick), kHeader, scale.At(tick), bottom, "grid");
    svg.Text(scale.At(tick), bottom + 16, ShortNumber(tick), "quiet", Anchor::kMiddle);
  }
  double y = kHeader;
  for (const BarGroup& group : chart.groups) {
    svg.Text(kMargin, y + 18, group.label, "group");
    y += kGroupHeight;
    for (const Bar& bar : group.bars) {
      DrawBar(bar, scale, from, y, &svg);
      y += kBarStep;
    }
  }
  return svg.Finish();
}

}  // namespace distlock::bench
