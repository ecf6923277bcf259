// SPDX-License-Identifier: Apache-2.0
#include "distlock/wire/names.h"

#include <algorithm>
#include <string>

namespace distlock::wire {
namespace {

constexpr std::string_view kRefusalPrefix = "REFUSAL_REASON_";
constexpr std::string_view kLostPrefix = "LOST_REASON_";

std::string_view WithoutPrefix(std::string_view name, std::string_view prefix) {
  return name.substr(std::min(name.size(), prefix.size()));
}

}  // namespace

std::string_view NameOf(v1::RefusalReason reason) {
  return WithoutPrefix(v1::RefusalReason_Name(reason), kRefusalPrefix);
}

std::string_view NameOf(v1::LostReason reason) { return WithoutPrefix(v1::LostReason_Name(reason), kLostPrefix); }

std::optional<v1::RefusalReason> RefusalReasonOf(std::string_view name) {
  v1::RefusalReason reason;
  if (!v1::RefusalReason_Parse(std::string(kRefusalPrefix).append(name), &reason)) return std::nullopt;
  return reason;
}

}  // namespace distlock::wire
