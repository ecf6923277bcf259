// SPDX-License-Identifier: Apache-2.0
//
// The daemon's log: one line per state change on stderr, as text or JSON. Any thread may log; a line is written whole.
//   Info("lease lost", {{"namespace", ns}, {"key", key}, {"reason", "taken"}});
//
// Values may be hostile: control bytes, quotes, broken UTF-8 and direction marks are escaped in both formats.
// Never log a secret: lease ids go through Redacted(), store URLs through RedactedUrl() (ops/secrets.h).
//
// Levels:
// - debug: one line per request
// - info: state changes
// - warn: an operator should look; repetitions pass a LogLimit
// - error: the daemon cannot go on
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "absl/time/time.h"

namespace distlock::ops {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class LogFormat { kText, kJson };

// One key=value. `key` is a literal; `value` is only read during the call.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, int64_t, uint64_t, double, bool, absl::Duration> value;

  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, const char* v) : key(k), value(std::string_view(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v) {}
  LogField(std::string_view k, double v) : key(k), value(v) {}
  LogField(std::string_view k, absl::Duration v) : key(k), value(v) {}
  template <typename T, typename = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>>
  LogField(std::string_view k, T v) : key(k) {
    if constexpr (std::is_signed_v<T>) {
      value = static_cast<int64_t>(v);
    } else {
      value = static_cast<uint64_t>(v);
    }
  }
};
using LogFields = std::initializer_list<LogField>;

// A line without its line end.
std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level, std::string_view event, LogFields fields);

// Until this is called, the log is text at info level. Main calls it once the options are known.
void ConfigureLog(LogLevel level, LogFormat format);

bool LogEnabled(LogLevel level);
void Log(LogLevel level, std::string_view event, LogFields fields);

inline void Debug(std::string_view event, LogFields fields = {}) { Log(LogLevel::kDebug, event, fields); }
inline void Info(std::string_view event, LogFields fields = {}) { Log(LogLevel::kInfo, event, fields); }
inline void Warn(std::string_view event, LogFields fields = {}) { Log(LogLevel::kWarn, event, fields); }
inline void Error(std::string_view event, LogFields fields = {}) { Log(LogLevel::kError, event, fields); }

// A rate limit for one log line: one line per interval passes. One object per place in the code, usually static; any
// thread.
//   static LogLimit limit(absl::Seconds(10));
//   if (auto held_back = limit.Pass()) Warn("store refused a command", {{"error", e}, {"held_back", *held_back}});
class LogLimit {
 public:
  explicit LogLimit(absl::Duration every) : every_ns_(absl::ToInt64Nanoseconds(every)) {}

  // Returns how many lines were suppressed since the last one that passed, or nullopt to suppress this one.
  std::optional<uint64_t> Pass();
  std::optional<uint64_t> Pass(int64_t now_ns);  // of a clock that never goes back

  // Returns how many lines were suppressed, for a periodic summary. nullopt: none, or the interval has not passed, so
  // that the next line may still report them. INT64_MAX does not wait for the interval.
  std::optional<uint64_t> Rest();
  std::optional<uint64_t> Rest(int64_t now_ns);

 private:
  const int64_t every_ns_;
  std::atomic<int64_t> next_ns_{INT64_MIN};
  std::atomic<uint64_t> held_back_{0};
};

}  // namespace distlock::ops
