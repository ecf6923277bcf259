// SPDX-License-Identifier: Apache-2.0
#include "duration.h"

#include <absl/time/time.h>

namespace distlock::cli {

std::optional<Millis> ParseDuration(const std::string& text) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 366);
  if (text.empty()) return std::nullopt;
  const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
  absl::Duration parsed;
  if (!absl::ParseDuration(plain ? text + "s" : text, &parsed)) return std::nullopt;
  if (parsed < absl::ZeroDuration() || parsed > kLongest) return std::nullopt;
  const auto millis = Millis(absl::ToInt64Milliseconds(parsed));
  // Most flags take 0 as "one try" or "none", so a tiny duration must not become 0.
  if (millis.count() == 0 && parsed > absl::ZeroDuration()) return Millis(1);
  return millis;
}

std::string FormatDuration(std::chrono::nanoseconds value) {
  return absl::FormatDuration(absl::FromChrono(std::chrono::duration_cast<Millis>(value)));
}

std::string FormatTime(std::chrono::system_clock::time_point value) {
  if (value == std::chrono::system_clock::time_point()) return "";
  return absl::FormatTime(kRfc3339Millis, absl::FromChrono(value), absl::UTCTimeZone());
}

}  // namespace distlock::cli
