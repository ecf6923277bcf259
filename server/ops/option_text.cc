// SPDX-License-Identifier: Apache-2.0
#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/option_table.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

constexpr size_t kWidth = 100;
constexpr std::string_view kIndent = "      ";

std::string_view GroupTitle(OptionGroup group) {
  switch (group) {
    case OptionGroup::kGeneral:
      return "General";
    case OptionGroup::kServing:
      return "Serving";
    case OptionGroup::kAccess:
      return "Access";
    case OptionGroup::kStore:
      return "Store";
    case OptionGroup::kTime:
      return "Time";
    case OptionGroup::kLimits:
      return "Limits";
    case OptionGroup::kLog:
      return "Log";
  }
  return "";
}

std::string Wrapped(const std::vector<std::string_view>& words) {
  std::string out(kIndent);
  size_t column = out.size();
  for (const std::string_view word : words) {
    if (column + 1 + word.size() > kWidth && column > kIndent.size()) {
      out += Cat("\n", kIndent);
      column = kIndent.size();
    } else if (column > kIndent.size()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + "\n";
}

std::string OptionHelp(const OptionRow& row) {
  std::string head = Cat(IsLimit(row) ? "    " : "  --", row.name);
  if (const std::string_view word = ValueWord(row); !word.empty()) head += Cat(" ", word);
  // Range and default stay on one line.
  std::vector<std::string_view> words = Split(row.help, " ");
  const std::string range = Cat("(", row.allowed, ")");
  if (Contains(row.allowed, "..")) words.push_back(range);
  const std::string fallback = Cat("[default ", row.fallback, "]");
  if (!row.fallback.empty()) words.push_back(fallback);
  if (HasVariable(row)) {
    if (head.size() < 40) head.resize(40, ' ');
    head += Cat("  ", VariableName(row.name));
  }
  return Cat(head, "\n", Wrapped(words));
}

std::string Help(bool all) {
  std::string out =
      "usage: distlockd [--option value]...\n\n"
      "A lock broker: serves locks over gRPC and keeps them in Redis or Valkey. Every option can be set on the\n"
      "command line, by the variable at its right, or in the YAML file of --config; the first of these that\n"
      "sets it counts. Several values: repeat the flag, separate by commas in the variable, write a list in\n"
      "the file. Durations are 500ms, 15s, 1h; sizes are bytes. Exit codes: 64 wrong command line, 78 wrong\n"
      "variable, file or combination.\n";
  if (!all) out += "These are the options that most brokers need; --help-all lists all, and the limits.\n";
  const OptionRow* previous = nullptr;
  for (const OptionRow& row : OptionTable()) {
    if (!all && !IsBasic(row)) continue;
    if (previous == nullptr || previous->group != row.group) out += Cat("\n", GroupTitle(row.group), ":\n");
    out += OptionHelp(row);
    previous = &row;
  }
  return out;
}

void EmitValues(const OptionRow& row, const Options& options, YAML::Emitter& yaml) {
  yaml << YAML::Key << std::string(row.name) << YAML::Value;
  const std::vector<std::string> values = OptionValues(row, options);
  if (!IsRepeated(row)) {
    yaml << values.front();
    return;
  }
  yaml << YAML::BeginSeq;
  for (const std::string& value : values) yaml << value;
  yaml << YAML::EndSeq;
}

void EmitLimits(const Options& options, YAML::Emitter& yaml) {
  yaml << YAML::Key << std::string(kLimitsOption) << YAML::Value << YAML::BeginMap;
  for (const OptionRow& row : OptionTable()) {
    if (IsLimit(row)) EmitValues(row, options, yaml);
  }
  yaml << YAML::EndMap;
}

}  // namespace

std::string HelpText() { return Help(/*all=*/false); }

std::string HelpOfAll() { return Help(/*all=*/true); }

std::string ConfigText(const Options& options) {
  YAML::Emitter yaml;
  yaml << YAML::BeginMap;
  for (const OptionRow& row : OptionTable()) {
    if (!MayStandInFile(row)) continue;
    row.name == kLimitsOption ? EmitLimits(options, yaml) : EmitValues(row, options, yaml);
  }
  yaml << YAML::EndMap;
  return Cat(yaml.c_str(), "\n");
}

std::vector<std::string_view> OptionNames() {
  std::vector<std::string_view> names;
  for (const OptionRow& row : OptionTable()) names.push_back(row.name);
  return names;
}

}  // namespace distlock::ops
