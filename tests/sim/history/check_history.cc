// SPDX-License-Identifier: Apache-2.0
//
// distlock_check_history: judges one history, given as files of JSON lines.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "history/check.h"
#include "history/index.h"
#include "history/json_lines.h"
#include "history/names.h"
#include "history/report.h"
#include "history/summary.h"

namespace distlock::sim {
namespace {

constexpr int kViolated = 1;
constexpr int kUnreadable = 2;

template <typename Counts>
std::string Named(const Counts& counts, std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(counts[i]) + " " +
              std::string(NameOf(names, static_cast<int64_t>(i)));
  }
  return text.empty() ? "none" : text;
}

void Print(const char* name, const Spread& spread) {
  std::printf("%-11s %lld; median %s, 99 %% %s, longest %s\n", name, static_cast<long long>(spread.count),
              Report::Span(spread.median).c_str(), Report::Span(spread.p99).c_str(),
              Report::Span(spread.longest).c_str());
}

void Print(const Summary& summary) {
  const double seconds = static_cast<double>(summary.lasted) / 1e9;
  std::printf("records     %lld in %.1f s\n", static_cast<long long>(summary.records), seconds);
  std::printf("grants      %lld, %.1f a second; %lld released, %lld lost (%lld without a reason)\n",
              static_cast<long long>(summary.grants), seconds > 0 ? static_cast<double>(summary.grants) / seconds : 0,
              static_cast<long long>(summary.releases), static_cast<long long>(summary.losses),
              static_cast<long long>(summary.false_losses));
  std::printf("refusals    %s\n", Named(summary.refusals, RefusalNames()).c_str());
  std::printf("writes      %lld accepted, %lld rejected\n", static_cast<long long>(summary.writes),
              static_cast<long long>(summary.rejected_writes));
  std::printf("faults      %s\n", Named(summary.faults, FaultNames()).c_str());
  if (summary.margin_min != kForEver)
    std::printf("margin      %s at least between beliefs\n", Report::Span(summary.margin_min).c_str());
  Print("waits", summary.waits);
  Print("hand-offs", summary.hand_offs);
  Print("recoveries", summary.recoveries);
}

nlohmann::json AsJson(const Summary& summary, size_t violations) {
  return {{"records", summary.records},
          {"grants", summary.grants},
          {"losses", summary.losses},
          {"false_losses", summary.false_losses},
          {"faults", summary.FaultCount()},
          {"violations", violations},
          {"margin_min", summary.margin_min},
          {"longest_wait", summary.waits.longest},
          {"hand_off_p99", summary.hand_offs.p99}};
}

int Main(int argc, char** argv) {
  std::vector<std::string> files;
  bool json = false;
  CLI::App app("Judges a history: prints its figures and every violation. Exits 1 on any, 2 when it cannot be read.");
  app.add_option("FILE", files, "files of one history, JSON lines")->required()->check(CLI::ExistingFile);
  app.add_flag("--json", json, "print the figures as one JSON line, last");
  CLI11_PARSE(app, argc, argv);

  HistoryReader reader;
  for (const std::string& name : files) {
    std::ifstream in(name);
    if (!reader.Read(in, name)) {
      std::fprintf(stderr, "%s\n", reader.problem().c_str());
      return kUnreadable;
    }
  }
  if (!reader.has_run()) {
    std::fprintf(stderr, "no file has a line with \"run\", which says what to expect\n");
    return kUnreadable;
  }
  const History history = reader.Take();
  const std::vector<Violation> violations = CheckAll(history);
  const Summary summary = Summarize(history);
  Print(summary);
  for (const Violation& violation : violations)
    std::printf("VIOLATION %s: %s\n", violation.invariant.c_str(), violation.story.c_str());
  std::printf("%zu violations\n", violations.size());
  if (json) std::printf("%s\n", AsJson(summary, violations.size()).dump().c_str());
  return violations.empty() ? 0 : kViolated;
}

}  // namespace
}  // namespace distlock::sim

int main(int argc, char** argv) { return distlock::sim::Main(argc, argv); }
