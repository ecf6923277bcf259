// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>
#include <type_traits>

#include "ops/option_table.h"
#include "ops/secrets.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

template <typename T>
struct MemberOf;
template <typename T>
struct MemberOf<T Options::*> {
  using Type = T;
};

template <typename T>
constexpr std::string_view kNoSuch = "is not valid";
template <>
constexpr std::string_view kNoSuch<bool> = "is neither true nor false";
template <>
constexpr std::string_view kNoSuch<int64_t> = "is not a whole number";
template <>
constexpr std::string_view kNoSuch<double> = "is not a number";
template <>
constexpr std::string_view kNoSuch<absl::Duration> = "is not a duration such as 500ms, 15s or 1h";

bool Parse(std::string_view text, bool* value) {
  if (text != "true" && text != "false") return false;
  *value = text == "true";
  return true;
}
bool Parse(std::string_view text, int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}
bool Parse(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*value);
}
bool Parse(std::string_view text, absl::Duration* value) {
  return absl::ParseDuration(absl::string_view(text.data(), text.size()), value);
}

template <typename Text>
absl::Status Problem(const OptionRow& row, std::string_view text, const Text& what) {
  const std::string shown = row.secret ? RedactedUrl(text) : RedactedText(text);
  return absl::InvalidArgumentError(
      Cat(JsonQuoted(shown), " ", what, row.allowed.empty() ? "" : ": allowed is ", row.allowed));
}

template <typename T>
absl::Status SetNumber(const OptionRow& row, std::string_view text, T* value) {
  if (!Parse(text, value)) return Problem(row, text, kNoSuch<T>);
  if (row.allowed.empty()) return absl::OkStatus();
  T least{}, most{};
  const std::vector<std::string_view> bounds = Split(row.allowed, "..");
  if (!Parse(bounds.front(), &least) || !Parse(bounds.back(), &most)) {
    return absl::InternalError(Cat("the option table has a bad range ", row.allowed));
  }
  if (*value < least || *value > most) return Problem(row, text, "is out of range");
  return absl::OkStatus();
}

// The choices are in the order of the enumerators.
template <typename Enum>
absl::Status SetChoice(const OptionRow& row, std::string_view text, Enum* value) {
  int index = 0;
  for (const std::string_view choice : Split(row.allowed, "|")) {
    if (text == choice) {
      *value = static_cast<Enum>(index);
      return absl::OkStatus();
    }
    ++index;
  }
  return Problem(row, text, "is unknown");
}

absl::Status CheckText(const OptionRow& row, std::string_view text) {
  // Otherwise --print-config could not print it in a form that --config reads.
  if (!IsShowable(text)) return Problem(row, text, "holds a control character, or bytes that are not UTF-8");
  const absl::Status checked = row.check == nullptr ? absl::OkStatus() : row.check(text);
  return checked.ok() ? checked : Problem(row, text, checked.message());
}

std::string Choice(const OptionRow& row, int index) { return std::string(Split(row.allowed, "|")[index]); }

}  // namespace

bool IsSwitch(const OptionRow& row) {
  return std::holds_alternative<bool Options::*>(row.field) || row.places == OptionPlaces::kNowhereElse;
}

bool IsRepeated(const OptionRow& row) { return std::holds_alternative<std::vector<std::string> Options::*>(row.field); }

std::string_view ValueWord(const OptionRow& row) {
  if (row.name == kLimitsOption) return "NAME=VALUE";
  if (Contains(row.allowed, "|")) return row.allowed;
  if (std::holds_alternative<absl::Duration Options::*>(row.field)) return "DURATION";
  if (std::holds_alternative<int64_t Options::*>(row.field)) return "N";
  if (std::holds_alternative<double Options::*>(row.field)) return "FRACTION";
  return IsSwitch(row) ? "" : "TEXT";
}

absl::Status SetOption(const OptionRow& row, const std::vector<std::string>& values, Options* options) {
  if (IsRepeated(row)) {
    auto& list = options->*std::get<std::vector<std::string> Options::*>(row.field);
    list.clear();
    // Nothing at all is the default of some.
    if (row.fallback.empty() && values == std::vector<std::string>{""}) return absl::OkStatus();
    for (const std::string& text : values) {
      if (absl::Status status = CheckText(row, text); !status.ok()) return status;
    }
    list = values;
    return absl::OkStatus();
  }
  const std::string& text = values.back();
  return std::visit(
      [&](auto member) -> absl::Status {
        using Member = decltype(member);
        if constexpr (std::is_same_v<Member, std::monostate> ||
                      std::is_same_v<Member, std::vector<std::string> Options::*>) {
          return absl::OkStatus();
        } else if constexpr (std::is_same_v<Member, std::string Options::*>) {
          absl::Status status = CheckText(row, text);
          if (status.ok()) options->*member = text;
          return status;
        } else if constexpr (std::is_enum_v<typename MemberOf<Member>::Type>) {
          return SetChoice(row, text, &(options->*member));
        } else {
          return SetNumber(row, text, &(options->*member));
        }
      },
      row.field);
}

std::vector<std::string> OptionValues(const OptionRow& row, const Options& options) {
  return std::visit(
      [&](auto member) -> std::vector<std::string> {
        using Member = decltype(member);
        if constexpr (std::is_same_v<Member, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<Member, std::vector<std::string> Options::*>) {
          std::vector<std::string> values;
          for (const std::string& value : options.*member) values.push_back(RedactedText(value));
          return values;
        } else if constexpr (std::is_same_v<Member, std::string Options::*>) {
          return {row.secret ? RedactedUrl(options.*member) : RedactedText(options.*member)};
        } else if constexpr (std::is_same_v<Member, bool Options::*>) {
          return {options.*member ? "true" : "false"};
        } else if constexpr (std::is_same_v<Member, absl::Duration Options::*>) {
          return {absl::FormatDuration(options.*member)};
        } else if constexpr (std::is_enum_v<typename MemberOf<Member>::Type>) {
          return {Choice(row, static_cast<int>(options.*member))};
        } else {
          return {Cat(options.*member)};
        }
      },
      row.field);
}

}  // namespace distlock::ops
