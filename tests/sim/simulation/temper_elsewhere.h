// SPDX-License-Identifier: Apache-2.0
//
// Simulations in which session clients ask about their leases by lease_id, through any broker, and adopt impatiently.
#pragma once

#include "simulation/temper.h"

namespace distlock::sim {

// Makes a part of all simulations so; after everything else but the modes of the locks is drawn.
void DrawElsewhere(uint64_t seed, Temper& temper);

}  // namespace distlock::sim
