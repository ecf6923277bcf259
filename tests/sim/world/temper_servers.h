// SPDX-License-Identifier: Apache-2.0
//
// What disks, operators and clocks do to the servers of a world, drawn from its seed by dice of its own, so that other
// worlds stay as they are.
#pragma once

#include "world/temper.h"

namespace distlock::sim {

// How servers keep their data, and the faults of their rows; of some Single worlds, whether brokers hold off there.
void DrawServers(uint64_t seed, const WorldWishes& wishes, Temper& temper);

}  // namespace distlock::sim
