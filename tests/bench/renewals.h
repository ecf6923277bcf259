// SPDX-License-Identifier: Apache-2.0
//
// The cost of keeping leases alive. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// A fresh broker, 20 sessions, Size::leases leases in total, watched while it renews them. Columns: daemon CPU %, redis
// CPU % (of a core, without the CPU that both used before the leases, scaled by PercentAtGoal), EVALSHA/s (as
// measured), call ms and longest ms (median and longest of the renewal calls in Redis).
Sample Renewals(Lab& lab);

// Scales `cpu`, the part of a core (0..1) for renewing Size::leases, to percent for renewing 100 000 leases every 10 s.
double PercentAtGoal(const Size& size, double cpu);

}  // namespace distlock::bench
