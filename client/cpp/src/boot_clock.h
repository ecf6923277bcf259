// SPDX-License-Identifier: Apache-2.0
//
// CLOCK_BOOTTIME: the only clock of the client. It also counts the time that the machine is suspended, during which the
// clocks of the broker and the store go on. BootTimer wakes one thread when a time of that clock has come, also right
// after a resume.
#pragma once

#include <cstdint>
#include <limits>

namespace distlock::internal {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t BootNow();

// Saturates instead of overflowing.
constexpr int64_t AddNs(int64_t at_ns, int64_t delta_ns) {
  return delta_ns > kNever - at_ns ? kNever : at_ns + delta_ns;
}

class BootTimer {
 public:
  BootTimer();  // throws std::system_error when the process or the system has no descriptor left
  ~BootTimer();
  BootTimer(const BootTimer&) = delete;
  BootTimer& operator=(const BootTimer&) = delete;

  // Any thread. Replaces the time that was set before; a time in the past wakes at once.
  void Set(int64_t at_ns);
  // One thread. Returns when the time that was set has come.
  void Wait();

 private:
  const int fd_;
};

}  // namespace distlock::internal
