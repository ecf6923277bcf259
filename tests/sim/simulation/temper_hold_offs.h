// SPDX-License-Identifier: Apache-2.0
//
// Simulations that are about the length of a hold-off: leases that nobody renews outlive what a server forgets, and one
// kind of fault that the hold-off must allow for happens again and again.
#pragma once

#include "simulation/temper.h"

namespace distlock::sim {

// Some simulations in which brokers hold off are about that alone.
void DrawHoldOffs(uint64_t seed, Temper& temper);

}  // namespace distlock::sim
