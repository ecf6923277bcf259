// SPDX-License-Identifier: Apache-2.0
//
// What keeping leases alive costs. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// A fresh broker, 20 sessions, Size::leases leases in all, watched while it renews them. Columns: daemon CPU %, redis
// CPU % (of a core, beyond what both take before the leases; for renewing 100 000 leases every 10 s), EVALSHA/s (as
// watched), longest ms (of one renewal call at Redis).
Sample Renewals(Lab& lab);

}  // namespace distlock::bench
