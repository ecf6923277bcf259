// SPDX-License-Identifier: Apache-2.0
//
// The daemon's clock: CLOCK_BOOTTIME, which goes on during suspend. Only the edges may call it; the core is told the
// time. Any thread.
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
