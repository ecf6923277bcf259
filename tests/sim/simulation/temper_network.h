// SPDX-License-Identifier: Apache-2.0
//
// Faults of a network and the machines for a simulation's processes, as a part of its temper.
#pragma once

#include "simulation/faults.h"
#include "simulation/temper.h"

namespace distlock::sim {

// Late bytes, paths that fail over, long pauses. Drawn by dice of its own: the simulations that have none of it stay as
// they are.
void DrawNetwork(uint64_t seed, Temper& temper);

// No other faults happen than these.
void AllowOnly(bool (*these)(const Fault&), Temper& temper);

}  // namespace distlock::sim
