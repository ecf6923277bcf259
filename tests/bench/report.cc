// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace distlock::bench {
namespace {

std::string Number(double value) {
  char text[32];
  const double size = std::fabs(value);
  const int digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};

// REQUIRES: at least one value.
Spread SpreadOver(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::string Summary(const std::vector<double>& values) {
  if (values.empty()) return "–";
  const Spread spread = SpreadOver(values);
  if (values.size() == 1) return Number(spread.median);
  return "**" + Number(spread.median) + "** (" + Number(spread.low) + ".." + Number(spread.high) + ")";
}

// The first text of a case in any round, "" for none.
std::string FirstOf(const SectionResult& result, const std::string& name, std::string Sample::* text) {
  for (const auto& round : result.rounds) {
    const auto found = round.find(name);
    if (found != round.end() && !(found->second.*text).empty()) return found->second.*text;
  }
  return "";
}

// Why a case has no values, such as "NOT RUN: etcd is not installed"; "" when it has them.
std::string WhyNoValues(const SectionResult& result, const std::string& name) {
  if (const std::string error = FirstOf(result, name, &Sample::error); !error.empty()) return "INVALID: " + error;
  if (const std::string why = FirstOf(result, name, &Sample::not_run); !why.empty()) return "NOT RUN: " + why;
  return "";
}

std::optional<double> ValueOf(const std::map<std::string, Sample>& round, const std::string& name,
                              const std::string& column) {
  const auto sample = round.find(name);
  if (sample == round.end()) return std::nullopt;
  const auto value = sample->second.values.find(column);
  if (value == sample->second.values.end()) return std::nullopt;
  return value->second;
}

std::vector<double> Column(const SectionResult& result, const std::string& name, const std::string& column) {
  std::vector<double> values;
  for (const auto& round : result.rounds) {
    if (const auto value = ValueOf(round, name, column)) values.push_back(*value);
  }
  return values;
}

std::vector<double> Compare(const SectionResult& result, const Comparison& comparison) {
  std::vector<double> values;
  for (const auto& round : result.rounds) {
    const auto of = ValueOf(round, comparison.of, comparison.column);
    const auto against = ValueOf(round, comparison.against, comparison.column);
    if (!of || !against || *against == 0) continue;
    values.push_back(comparison.kind == Comparison::Kind::kRatio ? *of / *against : *of - *against);
  }
  return values;
}

bool MoreIsBetter(const std::string& column) { return column.ends_with("/s"); }

const Floor* FloorOf(const Section& section, const std::string& name) {
  for (const Floor& floor : section.floors) {
    if (floor.of == name) return &floor;
  }
  return nullptr;
}

// The share of its floor that a case reaches, in each round.
std::vector<double> SharesOf(const SectionResult& result, const Floor& floor) {
  std::vector<double> shares;
  for (const auto& round : result.rounds) {
    const auto of = ValueOf(round, floor.of, floor.column);
    const auto least = ValueOf(round, floor.floor, floor.floor_column.empty() ? floor.column : floor.floor_column);
    if (!of || !least) continue;
    const double over = MoreIsBetter(floor.column) ? *least : *of;
    if (over != 0) shares.push_back((MoreIsBetter(floor.column) ? *of : *least) / over);
  }
  return shares;
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '|', '/');
  return text.substr(0, 300);
}

void WriteFloor(const SectionResult& result, const std::string& name, std::ostream& out) {
  const Floor* floor = FloorOf(result.section, name);
  if (floor == nullptr) {
    out << " | |";
    return;
  }
  const std::string why = WhyNoValues(result, floor->floor);
  out << ' ' << (why.empty() ? Summary(SharesOf(result, *floor)) : why.substr(0, why.find(':'))) << " | "
      << floor->column << " of: " << floor->floor << " |";
}

void WriteCases(const SectionResult& result, std::ostream& out) {
  out << "| |";
  const bool floors = !result.section.floors.empty();
  for (const std::string& column : result.section.columns) out << ' ' << column << " |";
  out << (floors ? " share of its floor | floor |\n|---|" : "\n|---|");
  for (size_t i = 0; i < result.section.columns.size(); ++i) out << "---:|";
  out << (floors ? "---:|---|\n" : "\n");
  for (const Case& c : result.section.cases) {
    out << "| " << c.name << " |";
    if (const std::string why = WhyNoValues(result, c.name); !why.empty()) {
      out << ' ' << OneLine(why) << " |\n";
      continue;
    }
    for (const std::string& column : result.section.columns)
      out << ' ' << Summary(Column(result, c.name, column)) << " |";
    if (floors) WriteFloor(result, c.name, out);
    out << '\n';
  }
}

void WriteComparisons(const SectionResult& result, std::ostream& out) {
  if (result.section.comparisons.empty()) return;
  out << "\n| same round | ratio or difference | must | ambitious |\n|---|---:|---:|---:|\n";
  for (const Comparison& comparison : result.section.comparisons) {
    std::string why = WhyNoValues(result, comparison.of);
    if (why.empty()) why = WhyNoValues(result, comparison.against);
    out << "| " << comparison.name << " | "
        << (why.empty() ? Summary(Compare(result, comparison)) : why.substr(0, why.find(':'))) << " | "
        << comparison.must << " | " << comparison.ambitious << " |\n";
  }
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// Joins what `write` makes of each element.
template <typename Range, typename Write>
void List(std::ostream& out, char open, char close, const Range& range, Write write) {
  out << open;
  bool first = true;
  for (const auto& element : range) {
    if (!first) out << ',';
    first = false;
    write(element);
  }
  out << close;
}

void WriteSample(const Sample& sample, std::ostream& out) {
  out << "{\"error\":" << Quoted(sample.error) << ",\"not_run\":" << Quoted(sample.not_run) << ",\"values\":";
  List(out, '{', '}', sample.values, [&](const auto& value) {
    out << Quoted(value.first) << ':' << (std::isfinite(value.second) ? std::to_string(value.second) : "null");
  });
  out << '}';
}

}  // namespace

bool Results::AllValid() const {
  for (const SectionResult& result : sections) {
    for (const Case& c : result.section.cases) {
      if (!FirstOf(result, c.name, &Sample::error).empty()) return false;
    }
  }
  return true;
}

void WriteMarkdown(const Results& results, std::ostream& out) {
  for (const auto& [name, value] : results.conditions) out << "- " << name << ": " << value << '\n';
  for (const SectionResult& result : results.sections) {
    out << "\n### " << result.section.title << " (`" << result.section.id << "`, " << result.rounds.size()
        << " rounds)\n\n";
    WriteCases(result, out);
    WriteComparisons(result, out);
    if (!result.section.notes.empty()) out << '\n' << result.section.notes << '\n';
  }
  out.flush();
}

void WriteJson(const Results& results, std::ostream& out) {
  out << "{\"conditions\":";
  List(out, '{', '}', results.conditions, [&](const auto& c) { out << Quoted(c.first) << ':' << Quoted(c.second); });
  out << ",\"sections\":";
  List(out, '{', '}', results.sections, [&](const SectionResult& result) {
    out << Quoted(result.section.id) << ":{\"title\":" << Quoted(result.section.title) << ",\"cases\":";
    List(out, '[', ']', result.section.cases, [&](const Case& c) { out << Quoted(c.name); });
    out << ",\"rounds\":";
    List(out, '[', ']', result.rounds, [&](const auto& round) {
      List(out, '{', '}', round, [&](const auto& sample) {
        out << Quoted(sample.first) << ':';
        WriteSample(sample.second, out);
      });
    });
    out << ",\"comparisons\":";
    List(out, '{', '}', result.section.comparisons, [&](const Comparison& comparison) {
      out << Quoted(comparison.name) << ':';
      List(out, '[', ']', Compare(result, comparison), [&](double value) { out << value; });
    });
    out << ",\"floors\":";
    List(out, '{', '}', result.section.floors, [&](const Floor& floor) {
      out << Quoted(floor.of) << ":{\"floor\":" << Quoted(floor.floor) << ",\"column\":" << Quoted(floor.column)
          << ",\"shares\":";
      List(out, '[', ']', SharesOf(result, floor), [&](double value) { out << value; });
      out << '}';
    });
    out << '}';
  });
  out << "}\n";
}

}  // namespace distlock::bench
