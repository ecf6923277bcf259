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

// One command at a time as a message through a bare relay, without a pause: p50 µs, p99 µs.
Sample RelayedInTurn(const Lab& lab);

// What a queue's waiters do one after the other: hold for 1 ms, 50 times, and after each hold a command through a bare
// relay. Columns: makespan ms, slowest ms.
Sample RelayedQueue(const Lab& lab);

// As many keys as the broker holds leases, renewed at its rate by one client, with a script that only reads them,
// compares the owner, and sets a new time to live. Columns: redis CPU %, call ms, longest ms, as in Renewals.
Sample LeastRenewals(const Lab& lab);

}  // namespace distlock::bench
