// SPDX-License-Identifier: Apache-2.0
//
// Locks that brokers keep for a moment after their release (distlockd --linger), on brokers of their own; beside the
// same without. Main thread.
#pragma once

#include <cstddef>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

enum class Keeps { kNothing, kFor50Ms };

// Closed loops of sessions, each slot with a lock of its own. Columns as of Measure.
Sample KeptLocks(Lab& lab, Keeps keeps, size_t sessions, size_t in_flight);

// One session, all slots of which read the same lock. Columns as of Measure.
Sample SharedLock(Lab& lab, Keeps keeps, size_t in_flight);

// One caller takes a lock through the first of two brokers twice, and then another one takes it through the second:
// how long that takes. A lock that the first broker has kept must be recalled. Each time another lock.
// Columns: p50 µs, p99 µs, trip µs (of a PING to the store), p50 in trips, p99 in trips.
Sample Recalls(Lab& lab, Keeps keeps);

// Two callers take one lock in turn, each through a broker of its own.
// Columns: pairs/s, p99 µs (of an acquire), messages/s (two of a recall: itself, and the hand-off that follows).
Sample InTurn(Lab& lab, Keeps keeps);

}  // namespace distlock::bench
