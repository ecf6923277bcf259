// SPDX-License-Identifier: Apache-2.0
#include "ops/log.h"

#include <cmath>
#include <cstdio>
#include <ctime>

#include "absl/time/clock.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

constexpr std::string_view kLevelNames[] = {"debug", "info", "warn", "error"};

std::string ValueText(const LogField& field, bool json) {
  return std::visit(
      [&](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return json ? JsonQuoted(value) : WordOrQuoted(value);
        } else if constexpr (std::is_same_v<T, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, absl::Duration>) {
          // In JSON a number of seconds, so that readers can compute with it.
          if (json && value != absl::InfiniteDuration() && value != -absl::InfiniteDuration()) {
            return Cat(absl::ToDoubleSeconds(value));
          }
          return json ? JsonQuoted(absl::FormatDuration(value)) : absl::FormatDuration(value);
        } else if constexpr (std::is_same_v<T, double>) {
          return json && !std::isfinite(value) ? "null" : Cat(value);
        } else {
          return Cat(value);
        }
      },
      field.value);
}

std::atomic<LogLevel> least_shown = LogLevel::kInfo;
std::atomic<LogFormat> shown_as = LogFormat::kText;

// Not the wall clock, because a step back would suppress lines.
int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace

std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level, std::string_view event, LogFields fields) {
  const std::string_view level_name = kLevelNames[static_cast<int>(level)];
  const std::string stamp = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
  if (format == LogFormat::kJson) {
    std::string line = Cat("{\"time\":\"", stamp, "\",\"level\":\"", level_name, "\",\"event\":", JsonQuoted(event));
    for (const LogField& field : fields) line += Cat(",", JsonQuoted(field.key), ":", ValueText(field, true));
    return line + "}";
  }
  // The event is a literal of ours; escaped all the same, so that a mistake cannot break the line.
  const std::string quoted = JsonQuoted(event);
  std::string line = Cat(stamp, " ", level_name, " ", std::string_view(quoted).substr(1, quoted.size() - 2));
  for (const LogField& field : fields) line += Cat(" ", field.key, "=", ValueText(field, false));
  return line;
}

void ConfigureLog(LogLevel level, LogFormat format) {
  least_shown = level;
  shown_as = format;
}

bool LogEnabled(LogLevel level) { return level >= least_shown; }

void Log(LogLevel level, std::string_view event, LogFields fields) {
  if (!LogEnabled(level)) return;
  const std::string line = Cat(FormatLogLine(shown_as, absl::Now(), level, event, fields), "\n");
  // One call, which holds the stream's lock: lines of threads do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::optional<uint64_t> LogLimit::Pass() { return Pass(NowNs()); }
std::optional<uint64_t> LogLimit::Rest() { return Rest(NowNs()); }

std::optional<uint64_t> LogLimit::Pass(int64_t now_ns) {
  int64_t next = next_ns_.load(std::memory_order_relaxed);
  if (now_ns < next || !next_ns_.compare_exchange_strong(next, now_ns + every_ns_, std::memory_order_relaxed)) {
    held_back_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return held_back_.exchange(0, std::memory_order_relaxed);
}

std::optional<uint64_t> LogLimit::Rest(int64_t now_ns) {
  if (now_ns < next_ns_.load(std::memory_order_relaxed)) return std::nullopt;
  const uint64_t rest = held_back_.exchange(0, std::memory_order_relaxed);
  return rest == 0 ? std::nullopt : std::optional(rest);
}

}  // namespace distlock::ops
