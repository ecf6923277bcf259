// SPDX-License-Identifier: Apache-2.0
//
// The daemon's clock: CLOCK_BOOTTIME, which also counts time spent suspended. The core never reads it: the time is an
// argument there. Any thread.
#pragma once

#include <ctime>

#include "core/types.h"

namespace distlock::shard {

inline core::Instant BootNow() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return core::Instant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace distlock::shard
