// SPDX-License-Identifier: Apache-2.0
//
// The parts that all charts are drawn with: escaped text, shapes, colours, and a scale from values to coordinates.
// Coordinates are pixels of the view box. One thread at a time.
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace distlock::bench {

class Scale {
 public:
  // From 0 to a round number not below `greatest`.
  static Scale Linear(double greatest, double from_px, double to_px);
  // Logarithmic, of positive numbers: from one power of ten to another, or between just these two.
  static Scale Powers(double least, double greatest, double from_px, double to_px);
  static Scale Between(double least, double greatest, double from_px, double to_px);

  double At(double value) const;  // never outside of from_px..to_px
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  Scale(bool logarithmic, double from_px, double to_px) : logarithmic_(logarithmic), from_px_(from_px), to_px_(to_px) {}

  bool logarithmic_;
  double from_px_;
  double to_px_;
  std::vector<double> ticks_;  // the first and the last are the ends
};

enum class Anchor { kStart, kMiddle, kEnd };

class SvgWriter {
 public:
  SvgWriter(double width, double height, std::string_view title);

  // Classes are those of the style sheet in svg.cc: they give the colours.
  void Text(double x, double y, std::string_view text, std::string_view css_class = "", Anchor anchor = Anchor::kStart);
  void Rect(double x, double y, double width, double height, std::string_view css_class);
  void Stroke(double x1, double y1, double x2, double y2, std::string_view css_class);
  void Dot(double x, double y, std::string_view css_class);

  std::string Finish();

 private:
  std::ostringstream out_;
};

// For people: three digits, with k and M for large numbers.
std::string ShortNumber(double value);

// Room that a text takes at most, as near as one can know without its font.
double TextWidth(std::string_view text);

}  // namespace distlock::bench
