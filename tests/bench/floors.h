// SPDX-License-Identifier: Apache-2.0
//
// Lower bounds: the time that this machine needs for the least possible work. A figure in microseconds is only
// meaningful beside them, because it depends on the machine as much as on the broker. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// One command and its answer after each of the pauses of an idle hand-off: by hiredis, and as a message through a bare
// relay. Columns: p50 µs, p99 µs.
Sample IdleDirect(const Lab& lab);
Sample IdleRelayed(const Lab& lab);

// As many keys as the broker holds leases, renewed at its rate by one client, with a script that only reads them,
// compares the owner, and sets a new time to live. Columns: redis CPU %, call ms, longest ms, as in Renewals.
Sample LeastRenewals(const Lab& lab);

}  // namespace distlock::bench
