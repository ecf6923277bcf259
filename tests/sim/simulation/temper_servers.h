// SPDX-License-Identifier: Apache-2.0
//
// Faults of disks, operators and clocks for a simulation's servers, drawn from its seed by dice of its own, so that
// other simulations stay as they are.
#pragma once

#include "simulation/temper.h"

namespace distlock::sim {

// How servers keep their data, and the faults of their rows; of some Single simulations, whether brokers hold off
// there.
void DrawServers(uint64_t seed, const SimulationWishes& wishes, Temper& temper);

}  // namespace distlock::sim
