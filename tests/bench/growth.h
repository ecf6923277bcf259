// SPDX-License-Identifier: Apache-2.0
//
// How costs grow with the number of held leases, and with the number of waiters of one lock. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// A fresh broker, sessions that hold `leases` with no more than 10 000 each, the default limit, and one more session
// with 64 pairs in flight on other keys. Columns: those of Measure, µs/pair, daemon B/lease, redis B/lease.
Sample PairsBesideLeases(Lab& lab, size_t leases);

// A fresh broker, and one session that holds all of `leases` and has 64 pairs in flight itself. Columns: those of
// Measure, µs/pair.
Sample PairsOfHolder(Lab& lab, size_t leases);

// A fresh broker, 20 sessions with `waiters` in one queue: each holder releases the lock at once and queues again.
// Columns: µs/hand-off, p50 µs, p99 µs (release called to grant seen), CPU (µs per hand-off).
Sample HandoffsBeforeWaiters(Lab& lab, size_t waiters);

}  // namespace distlock::bench
