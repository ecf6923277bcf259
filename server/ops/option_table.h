// SPDX-License-Identifier: Apache-2.0
//
// The rows of the option table, and how a value of each kind is read and written. Private to this module; others see
// Options. The rows are constants; all functions are pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "ops/options.h"

namespace distlock::ops {

using OptionField =
    std::variant<std::monostate, bool Options::*, int64_t Options::*, double Options::*, absl::Duration Options::*,
                 std::string Options::*, std::vector<std::string> Options::*, LogLevel Options::*, LogFormat Options::*,
                 AutoOnOff Options::*, Audit Options::*, TlsClientAuth Options::*, TlsMinVersion Options::*>;

enum class OptionGroup { kGeneral, kServing, kAccess, kStore, kTime, kLimits, kLog };

// Where an option may be set besides the command line.
// kNowhereElse: it is an action, such as --help.
enum class OptionPlaces { kVariableAndFile, kVariable, kFile, kNowhereElse };

struct OptionRow {
  std::string_view name;
  OptionGroup group;
  OptionField field;  // its type is the kind of the value; none: an action such as --help
  std::string_view fallback;
  std::string_view allowed;  // `least..most`, `one|of|these`, or "" for any
  std::string_view help;
  absl::Status (*check)(std::string_view value) = nullptr;
  bool secret = false;  // its value may hold a password
  OptionPlaces places = OptionPlaces::kVariableAndFile;
};

// Sets a limit: --limits NAME=VALUE, DISTLOCK_LIMITS with commas, a map in the file.
inline constexpr std::string_view kLimitsOption = "limits";
inline bool IsLimit(const OptionRow& row) { return row.group == OptionGroup::kLimits && row.name != kLimitsOption; }
inline bool HasVariable(const OptionRow& row) {
  return !IsLimit(row) && (row.places == OptionPlaces::kVariableAndFile || row.places == OptionPlaces::kVariable);
}
inline bool MayStandInFile(const OptionRow& row) {
  return !IsLimit(row) && (row.places == OptionPlaces::kVariableAndFile || row.places == OptionPlaces::kFile);
}

// --http and --http-api: as empty. The ready line shows it so.
inline constexpr std::string_view kNowhere = "off";

std::span<const OptionRow> OptionTable();
const OptionRow* FindOption(std::string_view name);

std::string VariableName(std::string_view option);  // DISTLOCK_REDIS_USER for redis-user

bool IsBasic(const OptionRow& row);   // --help shows it, too; --help-all shows all
bool IsSwitch(const OptionRow& row);  // on the command line it needs no value
bool IsRepeated(const OptionRow& row);
std::string_view ValueWord(const OptionRow& row);  // what --help writes for the value

// The error says what is wrong with the value and what is allowed. The caller adds where the value came from.
absl::Status SetOption(const OptionRow& row, const std::vector<std::string>& values, Options* options);

// One text per value, as SetOption reads it; passwords masked.
std::vector<std::string> OptionValues(const OptionRow& row, const Options& options);

// Checks that the options fit together; appends warnings.
absl::Status CheckTogether(const Options& options, std::vector<std::string>* warnings);

}  // namespace distlock::ops
