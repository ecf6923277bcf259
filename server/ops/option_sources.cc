// SPDX-License-Identifier: Apache-2.0
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "absl/status/status.h"
#include "access/yaml_text.h"
#include "distlock/wire/given_file.h"
#include "distlock/wire/nearest.h"
#include "ops/option_table.h"
#include "ops/secrets.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

// Variables of clients, and of commands that run under a lock. They may also be set where a broker is started.
constexpr std::string_view kClientVariables[] = {"DISTLOCK_SERVER",         "DISTLOCK_KEY",        "DISTLOCK_KEYS",
                                                 "DISTLOCK_NAMESPACE",      "DISTLOCK_TOKEN",      "DISTLOCK_TOKENS",
                                                 "DISTLOCK_HOLDER_ID",      "DISTLOCK_LEASE_ID",   "DISTLOCK_TTL",
                                                 "DISTLOCK_LOST_REASON",    "DISTLOCK_TOKEN_FILE", "DISTLOCK_TLS_CA",
                                                 "DISTLOCK_TLS_SERVER_NAME"};

struct Setting {
  const OptionRow* row;
  std::vector<std::string> values;  // more than one only of a repeated option
  std::string source;               // "--listen", "DISTLOCK_LISTEN", "distlock.yaml:3: listen"
};
using Settings = std::vector<Setting>;

struct CommandLine {
  Settings settings;
  Invocation::Action action = Invocation::Action::kServe;
};

// The option whose name is nearest, or null.
const OptionRow* Nearest(std::string_view name) {
  const std::span<const OptionRow> rows = OptionTable();
  std::vector<std::string_view> names;
  for (const OptionRow& row : rows) names.push_back(row.name);
  const size_t nearest = wire::Nearest(name, names);
  return nearest == names.size() ? nullptr : &rows[nearest];
}

constexpr std::string_view kHelp = "distlockd --help-all lists all";

std::string Suggestion(std::string_view name, std::string_view prefix) {
  const OptionRow* nearest = Nearest(name);
  if (nearest == nullptr) return Cat("; ", kHelp);
  if (IsLimit(*nearest)) return Cat("; did you mean the limit ", nearest->name, "? ", kHelp);
  return Cat("; did you mean ", prefix, nearest->name, "?");
}

// A name or path may in fact be a store URL in the wrong place, with a password.
std::string Shown(std::string_view name) { return WordOrQuoted(RedactedText(name)); }

template <typename... Parts>
absl::Status Usage(const Parts&... parts) {
  return absl::InvalidArgumentError(Cat(parts...));
}

template <typename... Parts>
absl::Status BadConfig(const Parts&... parts) {
  return absl::FailedPreconditionError(Cat(parts...));
}

void AddSetting(Settings* settings, const OptionRow* row, std::string value, std::string source) {
  const auto same = std::find_if(settings->begin(), settings->end(), [&](const Setting& s) { return s.row == row; });
  if (same == settings->end()) {
    settings->push_back({row, {std::move(value)}, std::move(source)});
  } else if (IsRepeated(*row)) {
    same->values.push_back(std::move(value));
  } else {
    same->values = {std::move(value)};  // the last one counts, so that a wrapper script can append
  }
}

std::vector<std::string> ListOf(std::string_view value) {
  std::vector<std::string> items;
  for (const std::string_view item : Split(value, ",")) {
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

// `text`: NAME=VALUE.
absl::StatusOr<Setting> ReadLimit(std::string_view text, const std::string& source) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const OptionRow* row = FindOption(name);
  if (row == nullptr || !IsLimit(*row)) {
    return Usage(source, ": ", Shown(name), " is no limit", row == nullptr ? Suggestion(name, "--") : Cat("; ", kHelp));
  }
  if (equals == text.npos) return Usage(source, ": ", name, " needs a value: write ", name, "=VALUE");
  return Setting{row, {std::string(text.substr(equals + 1))}, Cat(source, ": ", name)};
}

absl::Status Add(Settings* settings, const OptionRow* row, std::string value, const std::string& source) {
  if (row->name != kLimitsOption) {
    AddSetting(settings, row, std::move(value), source);
    return absl::OkStatus();
  }
  for (const std::string& text : ListOf(value)) {
    absl::StatusOr<Setting> limit = ReadLimit(text, source);
    if (!limit.ok()) return limit.status();
    AddSetting(settings, limit->row, std::move(limit->values.front()), std::move(limit->source));
  }
  return absl::OkStatus();
}

// Written here rather than with CLI11, for reasons that README.md names.
absl::StatusOr<CommandLine> ReadFlags(const std::vector<std::string>& args) {
  CommandLine result;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string_view name = args[i] == "-h" ? "--help" : std::string_view(args[i]);
    if (!name.starts_with("--") || name.size() < 3) {
      return Usage(JsonQuoted(RedactedText(args[i])),
                   " is not an option; options start with --, distlockd --help lists them");
    }
    name.remove_prefix(2);
    const size_t equals = name.find('=');
    const std::string_view key = name.substr(0, equals);
    const OptionRow* row = FindOption(key);
    if (row == nullptr) return Usage("--", Shown(key), ": unknown option", Suggestion(key, "--"));
    if (IsLimit(*row)) return Usage("--", key, ": is a limit: write --limits ", key, "=VALUE");
    const std::string source = Cat("--", row->name);
    if (row->places == OptionPlaces::kNowhereElse) {
      if (equals != name.npos) return Usage(source, " takes no value");
      using Action = Invocation::Action;
      const Action asked = key == "help"       ? Action::kHelp
                           : key == "help-all" ? Action::kHelpAll
                           : key == "version"  ? Action::kVersion
                                               : Action::kPrintConfig;
      if (result.action != Action::kHelp && result.action != Action::kHelpAll) result.action = asked;
      continue;
    }
    std::string value = "true";
    if (equals != name.npos) {
      value = name.substr(equals + 1);
    } else if (!IsSwitch(*row)) {
      if (i + 1 == args.size() || args[i + 1].starts_with("--")) {
        if (row->name == kLimitsOption) return Usage(source, " needs a value: write NAME=VALUE; ", kHelp);
        return Usage(source, " needs a value", row->allowed.empty() ? "" : ": allowed is ", row->allowed);
      }
      value = args[++i];
    }
    absl::Status added = Add(&result.settings, row, std::move(value), source);
    if (!added.ok()) return added;
  }
  return result;
}

// redis-user for DISTLOCK_REDIS_USER.
std::string OptionName(std::string_view variable) {
  std::string option;
  for (const char c : variable.substr(std::string_view("DISTLOCK_").size())) {
    option += c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : '?';
  }
  return option;
}

absl::StatusOr<Settings> ReadVariables(const std::vector<std::string>& environment,
                                       std::vector<std::string>* warnings) {
  Settings settings;
  for (const std::string& entry : environment) {
    if (!entry.starts_with("DISTLOCK_")) continue;
    const size_t equals = entry.find('=');
    if (equals == entry.npos) continue;
    const std::string name = entry.substr(0, equals);
    const std::string option = OptionName(name);
    const OptionRow* row = FindOption(option);
    if (row != nullptr && HasVariable(*row)) {
      const std::string value = entry.substr(equals + 1);
      if (row->name == kLimitsOption) {
        const absl::Status added = Add(&settings, row, value, name);
        if (!added.ok()) return BadConfig(added.message());
      } else {
        settings.push_back({row, IsRepeated(*row) ? ListOf(value) : std::vector<std::string>{value}, name});
      }
    } else if (row != nullptr && IsLimit(*row)) {
      warnings->push_back(Cat("variable ", name, " is ignored: write ", row->name, "=VALUE into DISTLOCK_LIMITS"));
    } else if (std::find(std::begin(kClientVariables), std::end(kClientVariables), name) ==
               std::end(kClientVariables)) {
      // Unknown names are no error: Kubernetes sets DISTLOCK_SERVICE_HOST for a service called distlock.
      const OptionRow* nearest = Nearest(option);
      if (nearest != nullptr && HasVariable(*nearest)) {
        warnings->push_back(
            Cat("variable ", Shown(name), " is unknown and ignored; did you mean ", VariableName(nearest->name), "?"));
      }
    }
  }
  return settings;
}

absl::StatusOr<std::vector<std::string>> FileValues(const YAML::Node& node, const OptionRow& row,
                                                    const std::string& source) {
  if (node.IsScalar()) return std::vector<std::string>{node.Scalar()};
  if (node.IsNull()) return BadConfig(source, ": has no value; for an empty one write \"\"");
  if (!IsRepeated(row)) return BadConfig(source, ": takes one value, not a list or map");
  std::vector<std::string> values;
  for (const YAML::Node& item : node) {
    if (!node.IsSequence() || !item.IsScalar()) return BadConfig(source, ": takes a value or a list of values");
    values.push_back(item.Scalar());
  }
  return values;
}

// The map `limits`, or the whole file, whose limits are appended.
absl::Status ReadNodes(const YAML::Node& map, const std::string& file, bool of_limits, Settings* settings) {
  for (const auto& entry : map) {
    const YAML::Node& key = entry.first;
    const std::string line = Cat(file, ":", key.Mark().line + 1, ":");
    const std::string place = Cat(line, " ");
    if (!key.IsScalar()) return BadConfig(place, "an option's name must be plain text");
    const std::string& name = key.Scalar();
    const OptionRow* row = FindOption(name);
    // Its name is not shown: a file of secrets may be given by mistake.
    if (row == nullptr) {
      return BadConfig(line, key.Mark().column + 1, ": this name is an unknown ", of_limits ? "limit" : "option",
                       Suggestion(name, ""));
    }
    const std::string source = place + name;
    if (of_limits && !IsLimit(*row)) return BadConfig(source, ": is no limit: write it beside ", kLimitsOption);
    if (!of_limits && IsLimit(*row)) return BadConfig(source, ": is a limit: write it into the map ", kLimitsOption);
    if (!of_limits && !MayStandInFile(*row)) return BadConfig(source, ": cannot be set in the file");
    if (row->name == kLimitsOption) {
      if (!entry.second.IsMap()) return BadConfig(source, ": must be a map from the names of limits to values");
      const absl::Status read = ReadNodes(entry.second, file, /*of_limits=*/true, settings);
      if (!read.ok()) return read;
      continue;
    }
    const auto same = [&](const Setting& s) { return s.row == row; };
    if (std::any_of(settings->begin(), settings->end(), same)) return BadConfig(source, ": is set twice");
    absl::StatusOr<std::vector<std::string>> values = FileValues(entry.second, *row, source);
    if (!values.ok()) return values.status();
    settings->push_back({row, *std::move(values), source});
  }
  return absl::OkStatus();
}

absl::StatusOr<Settings> ReadRoot(const YAML::Node& root, const std::string& file) {
  Settings settings;
  if (root.IsNull()) return settings;
  if (!root.IsMap()) return BadConfig(file, ": must be a map from option names to values");
  absl::Status read = ReadNodes(root, file, /*of_limits=*/false, &settings);
  if (!read.ok()) return read;
  return settings;
}

absl::StatusOr<Settings> ReadConfigFile(const std::string& path) {
  const std::string file = Shown(path);
  const wire::GivenFile given = wire::ReadGivenFile(path);
  if (!given.problem.empty()) {
    return BadConfig("--config: ", file, " ", given.problem, "; name a file with options that this user may read");
  }
  const absl::StatusOr<YAML::Node> root = access::LoadYaml(given.text, file);
  if (!root.ok()) return BadConfig(root.status().message());
  return ReadRoot(*root, file);
}

absl::Status Apply(const Settings& settings, absl::StatusCode code, Options* options) {
  for (const Setting& setting : settings) {
    const absl::Status status = SetOption(*setting.row, setting.values, options);
    if (!status.ok()) return absl::Status(code, Cat(setting.source, ": ", status.message()));
  }
  return absl::OkStatus();
}

// Everybody on the machine may read the command lines of all processes.
void WarnOfPasswords(const Settings& flags, std::vector<std::string>* warnings) {
  for (const Setting& setting : flags) {
    if (!setting.row->secret || !HasPassword(setting.values.front())) continue;
    warnings->push_back(Cat(setting.source,
                            ": the password in it can be read by every user of this machine, as long as this process "
                            "runs: name a file with --redis-password-file, or set ",
                            VariableName(setting.row->name), " instead"));
  }
}

}  // namespace

absl::StatusOr<Invocation> ParseOptions(const std::vector<std::string>& args,
                                        const std::vector<std::string>& environment) {
  absl::StatusOr<CommandLine> flags = ReadFlags(args);
  if (!flags.ok()) return flags.status();
  Invocation result;
  result.action = flags->action;
  using enum Invocation::Action;
  if (result.action == kHelp || result.action == kHelpAll || result.action == kVersion) return result;

  result.options = DefaultOptions();
  const absl::StatusOr<Settings> variables = ReadVariables(environment, &result.warnings);
  if (!variables.ok()) return variables.status();
  constexpr auto kConfiguration = absl::StatusCode::kFailedPrecondition;
  // Applied twice: first to learn which file to read, then to override that file.
  absl::Status status = Apply(*variables, kConfiguration, &result.options);
  status.Update(Apply(flags->settings, absl::StatusCode::kInvalidArgument, &result.options));
  if (!status.ok()) return status;
  if (!result.options.config.empty()) {
    const absl::StatusOr<Settings> file = ReadConfigFile(result.options.config);
    if (!file.ok()) return file.status();
    status.Update(Apply(*file, kConfiguration, &result.options));
    status.Update(Apply(*variables, kConfiguration, &result.options));
    status.Update(Apply(flags->settings, absl::StatusCode::kInvalidArgument, &result.options));
  }
  for (std::string* address : {&result.options.http, &result.options.http_api}) {
    if (*address == kNowhere) address->clear();
  }
  WarnOfPasswords(flags->settings, &result.warnings);
  status.Update(CheckTogether(result.options, &result.warnings));
  if (!status.ok()) return status;
  return result;
}

}  // namespace distlock::ops
