// SPDX-License-Identifier: Apache-2.0
//
// Worlds in which session clients ask about their leases by lease_id, through any broker, and adopt impatiently.
#pragma once

#include "world/temper.h"

namespace distlock::sim {

// Makes a part of all worlds so; after everything else but the modes of the locks is drawn.
void DrawElsewhere(uint64_t seed, Temper& temper);

}  // namespace distlock::sim
