// SPDX-License-Identifier: Apache-2.0
#include "bench/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace distlock::bench {
namespace {

constexpr const char* kStyle = R"(<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.group{font-weight:600}.quiet{fill:#59636e}
.page{fill:#ffffff}.grid{stroke:#d1d9e0}.whisker{stroke:#1f2328}
.ours{fill:#0969da}.other{fill:#9aa4af}
.s0{fill:#0969da;stroke:#0969da}.s1{fill:#bc4c00;stroke:#bc4c00}.s2{fill:#1a7f37;stroke:#1a7f37}
.s3{fill:#8250df;stroke:#8250df}.s4{fill:#bf3989;stroke:#bf3989}.s5{fill:#59636e;stroke:#59636e}
line{stroke-width:1}.thick{stroke-width:2}text.s0,text.s1,text.s2,text.s3,text.s4,text.s5{stroke:none}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.quiet{fill:#9198a1}
.page{fill:#0d1117}.grid{stroke:#3d444d}.whisker{stroke:#f0f6fc}
.ours{fill:#4493f8}.other{fill:#656c76}
.s0{fill:#4493f8;stroke:#4493f8}.s1{fill:#f0883e;stroke:#f0883e}.s2{fill:#3fb950;stroke:#3fb950}
.s3{fill:#ab7df8;stroke:#ab7df8}.s4{fill:#db61a2;stroke:#db61a2}.s5{fill:#9198a1;stroke:#9198a1}}
</style>
)";

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      // XML has no way to write control characters.
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string Px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

const char* Name(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
  }
  return "start";
}

// 1, 2, 2.5 or 5 times a power of ten: the least that `parts` of reach `greatest`.
double RoundStep(double greatest, int parts) {
  const double power = std::pow(10, std::floor(std::log10(greatest / parts)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power * parts >= greatest) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Scale Scale::Linear(double greatest, double from_px, double to_px) {
  Scale scale(false, from_px, to_px);
  const double step = greatest > 0 ? RoundStep(greatest, 5) : 1;
  const int parts = std::max(1, static_cast<int>(std::ceil(greatest / step - 1e-9)));
  for (int i = 0; i <= parts; ++i) scale.ticks_.push_back(i * step);
  return scale;
}

Scale Scale::Powers(double least, double greatest, double from_px, double to_px) {
  Scale scale(true, from_px, to_px);
  const int first = static_cast<int>(std::floor(std::log10(least) + 1e-9));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(greatest) - 1e-9)));
  for (int power = first; power <= last; ++power) scale.ticks_.push_back(std::pow(10, power));
  return scale;
}

Scale Scale::Between(double least, double greatest, double from_px, double to_px) {
  Scale scale(true, from_px, to_px);
  scale.ticks_ = {least, greatest};
  if (least == greatest) scale.ticks_ = {least / 2, greatest * 2};
  return scale;
}

double Scale::At(double value) const {
  if (!std::isfinite(value)) return from_px_;
  const double from = ticks_.front();
  const double to = ticks_.back();
  const double inside = std::clamp(value, from, to);
  const double part = logarithmic_ ? std::log(inside / from) / std::log(to / from) : (inside - from) / (to - from);
  return from_px_ + part * (to_px_ - from_px_);
}

SvgWriter::SvgWriter(double width, double height, std::string_view title) {
  out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << Px(width) << ' ' << Px(height) << "\" width=\""
       << Px(width) << "\" height=\"" << Px(height) << "\" role=\"img\">\n<title>" << Escaped(title) << "</title>\n"
       << kStyle;
  Rect(0, 0, width, height, "page");
}

void SvgWriter::Text(double x, double y, std::string_view text, std::string_view css_class, Anchor anchor) {
  out_ << "<text x=\"" << Px(x) << "\" y=\"" << Px(y) << "\" class=\"" << css_class << "\" text-anchor=\""
       << Name(anchor) << "\">" << Escaped(text) << "</text>\n";
}

void SvgWriter::Rect(double x, double y, double width, double height, std::string_view css_class) {
  out_ << "<rect x=\"" << Px(x) << "\" y=\"" << Px(y) << "\" width=\"" << Px(width) << "\" height=\"" << Px(height)
       << "\" class=\"" << css_class << "\"/>\n";
}

void SvgWriter::Stroke(double x1, double y1, double x2, double y2, std::string_view css_class) {
  out_ << "<line x1=\"" << Px(x1) << "\" y1=\"" << Px(y1) << "\" x2=\"" << Px(x2) << "\" y2=\"" << Px(y2)
       << "\" class=\"" << css_class << "\"/>\n";
}

void SvgWriter::Dot(double x, double y, std::string_view css_class) {
  out_ << "<circle cx=\"" << Px(x) << "\" cy=\"" << Px(y) << "\" r=\"3.0\" class=\"" << css_class << "\"/>\n";
}

std::string SvgWriter::Finish() { return std::move(out_).str() + "</svg>\n"; }

std::string ShortNumber(double value) {
  const double size = std::fabs(value);
  const char* suffix = "";
  double shown = value;
  if (size >= 999.5e3) {
    shown = value / 1e6;
    suffix = " M";
  } else if (size >= 9999.5) {
    shown = value / 1e3;
    suffix = " k";
  }
  const double left = std::fabs(shown);
  int digits = left >= 99.95 ? 0 : left >= 9.995 ? 1 : 2;
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, shown);
  std::string number = text;
  // 20.0 says no more than 20.
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  return number + suffix;
}

double TextWidth(std::string_view text) {
  const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return 6.8 * static_cast<double>(std::count_if(text.begin(), text.end(), is_first_byte));
}

}  // namespace distlock::bench
