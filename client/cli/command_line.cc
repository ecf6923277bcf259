// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "distlock/wire/nearest.h"

namespace distlock::cli {
namespace {

bool IsFlag(const std::string& arg) { return arg.size() > 1 && arg[0] == '-'; }

bool TakesValue(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option != nullptr && option->get_items_expected_max() > 0;
}

bool NamesKey(const std::string& arg) {
  return arg.rfind("-k", 0) == 0 || arg == "--key" || arg.rfind("--key=", 0) == 0;
}

// Words of other programs for what a command here does.
constexpr std::pair<const char*, const char*> kOtherWords[] = {
    {"lock", "run"}, {"unlock", "release"}, {"list", "ls"}, {"get", "show"}, {"leader", "elect"}, {"help", "--help"}};

}  // namespace

bool TakesNextArgument(const CLI::App& command, const std::string& arg) {
  if (!IsFlag(arg)) return false;
  if (arg[1] == '-') return arg.find('=') == std::string::npos && TakesValue(command, arg);
  for (size_t i = 1; i < arg.size(); ++i) {
    // The rest of "-w5" is the value.
    if (TakesValue(command, std::string("-") + arg[i])) return i + 1 == arg.size();
  }
  return false;
}

const CLI::App* FindSubcommand(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

std::string DidYouMean(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  const auto named = app.get_subcommands();
  if (IsFlag(word)) {
    for (const CLI::Option* option : (named.empty() ? &app : named.front())->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  } else if (named.empty()) {
    for (const CLI::App* command : app.get_subcommands(nullptr)) known.push_back(command->get_name());
  }
  for (const auto& [said, meant] : kOtherWords) {
    if (named.empty() && word == said) return std::string("; did you mean ") + meant + "?";
  }
  const size_t nearest = wire::Nearest(word.substr(0, word.find('=')), {known.begin(), known.end()});
  return nearest == known.size() ? "" : "; did you mean " + known[nearest] + "?";
}

size_t SubcommandIndex(const CLI::App& app, const std::vector<std::string>& args) {
  size_t i = 0;
  while (i < args.size() && IsFlag(args[i])) i += TakesNextArgument(app, args[i]) ? 2 : 1;
  return std::min(i, args.size());
}

void SplitEmptyValues(std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    std::string& arg = args[i];
    if (arg == "--") return;
    if (arg.size() < 4 || arg.rfind("--", 0) != 0 || arg.find('=') != arg.size() - 1) continue;
    arg.pop_back();
    args.emplace(args.begin() + static_cast<std::ptrdiff_t>(++i));
  }
}

std::optional<std::string> TakeCommand(const CLI::App& app, std::vector<std::string>& args,
                                       std::vector<std::string>& command) {
  const size_t at = SubcommandIndex(app, args);
  if (at == args.size() || (args[at] != "run" && args[at] != "elect")) return std::nullopt;
  const CLI::App& sub = *app.get_subcommand(args[at]);
  std::optional<std::string> key;  // may be empty: then the parser says so
  bool key_flag_first = false;
  size_t begin = at + 1;
  for (; begin < args.size() && args[begin] != "--"; ++begin) {
    const std::string& arg = args[begin];
    if (IsFlag(arg)) {
      key_flag_first = key_flag_first || (!key && NamesKey(arg));
      begin += TakesNextArgument(sub, arg) ? 1 : 0;
    } else if (!key) {
      key = arg;
    } else if (key_flag_first) {
      return "after -k, '" + *key + "' may be the command or one more KEY: write -- before the command";
    } else {
      break;
    }
  }
  begin = std::min(begin, args.size());
  command.assign(args.begin() + static_cast<std::ptrdiff_t>(begin), args.end());
  args.resize(begin);
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  return std::nullopt;
}

}  // namespace distlock::cli
