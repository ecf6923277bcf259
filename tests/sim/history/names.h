// SPDX-License-Identifier: Apache-2.0
//
// The names of kinds, reasons and faults, for stories and for JSON lines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "history/history.h"

namespace distlock::sim {

// By the value of the enumeration. The names of RecordKind are its words without the k.
std::span<const std::string_view> KindNames();
std::span<const std::string_view> EndedNames();      // EndedWhy
std::span<const std::string_view> FreedNames();      // FreedHow
std::span<const std::string_view> FaultNames();      // FaultKind
std::span<const std::string_view> RefusalNames();    // core::RefusalReason, as on the wire
std::span<const std::string_view> ReleaseNames();    // core::ReleaseOutcome
std::span<const std::string_view> LostNames();       // core::LostReason
std::span<const std::string_view> ActorKindNames();  // Actor::Kind
std::span<const std::string_view> LookNames();       // Look::Kind

inline std::string_view NameOf(std::span<const std::string_view> names, int64_t value) {
  return value >= 0 && value < static_cast<int64_t>(names.size()) ? names[static_cast<size_t>(value)] : "?";
}
std::optional<uint8_t> ValueOf(std::span<const std::string_view> names, std::string_view name);

}  // namespace distlock::sim
