// SPDX-License-Identifier: Apache-2.0
//
// Durations as people write them: "15s", "500ms", "1m30s", "2.5h"; a plain number means seconds, as for flock.
// Pure functions, any thread. Values are never negative and never infinite.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace distlock::cli {

using Millis = std::chrono::milliseconds;

// Nothing when `text` is not a duration, is negative, or is longer than a year. A duration between 0 and 1 ms becomes 1
// ms.
std::optional<Millis> ParseDuration(const std::string& text);

// "250ms", "15s", "14.98s", "1m30s": whole milliseconds.
std::string FormatDuration(std::chrono::nanoseconds value);

inline int64_t InMillis(std::chrono::nanoseconds value) { return std::chrono::duration_cast<Millis>(value).count(); }

// For absl::FormatTime.
inline constexpr char kRfc3339Millis[] = "%Y-%m-%dT%H:%M:%E3SZ";

// RFC 3339 in UTC with milliseconds; "" for the epoch, which means "not known".
std::string FormatTime(std::chrono::system_clock::time_point value);

}  // namespace distlock::cli
