// SPDX-License-Identifier: Apache-2.0
#include "boot_clock.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace distlock::internal {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// Far enough to mean never, near enough for every kernel.
constexpr int64_t kFarthest = 100LL * 365 * 86400 * kSecond;

int NewTimer() {
  const int fd = ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "distlock: timerfd_create(CLOCK_BOOTTIME)");
  return fd;
}

}  // namespace

int64_t BootNow() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

BootTimer::BootTimer() : fd_(NewTimer()) {}
BootTimer::~BootTimer() { ::close(fd_); }

void BootTimer::Set(int64_t at_ns) {
  at_ns = std::clamp<int64_t>(at_ns, 1, kFarthest);  // 0 would switch it off
  itimerspec spec{};
  spec.it_value.tv_sec = at_ns / kSecond;
  spec.it_value.tv_nsec = at_ns % kSecond;
  ::timerfd_settime(fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

void BootTimer::Wait() {
  uint64_t ticks = 0;
  while (::read(fd_, &ticks, sizeof(ticks)) < 0 && errno == EINTR) {
  }
}

}  // namespace distlock::internal
