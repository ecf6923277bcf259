// SPDX-License-Identifier: Apache-2.0
//
// What keeping leases alive costs. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// A fresh broker, 20 sessions, Size::leases leases in all, watched while it renews them. Columns: daemon CPU %, redis
// CPU % (of a core, beyond what both take before the leases, as PercentAtGoal), EVALSHA/s (as watched), call ms and
// longest ms (median and longest of the renewal calls at Redis).
Sample Renewals(Lab& lab);

// `cpu`, the part of a core (0..1) that renewing Size::leases takes, in percent and for renewing 100 000 leases every
// 10 s.
double PercentAtGoal(const Size& size, double cpu);

}  // namespace distlock::bench
