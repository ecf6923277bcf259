// SPDX-License-Identifier: Apache-2.0
//
// What this machine takes for the least that would do, however little a broker needed: without them, a figure in
// microseconds says as much of the machine as of what was measured. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// One command and its answer after each of the pauses of an idle hand-off: by hiredis, and as a message through a bare
// relay. Columns: p50 µs, p99 µs.
Sample IdleDirect(const Lab& lab);
Sample IdleRelayed(const Lab& lab);

// As many keys as the broker holds leases, renewed in its rhythm by one client with a script that does nothing but
// read them, compare the owner, and set a new time to live. Columns: redis CPU %, call ms, longest ms, as in Renewals.
Sample LeastRenewals(const Lab& lab);

}  // namespace distlock::bench
