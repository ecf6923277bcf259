// SPDX-License-Identifier: Apache-2.0
//
// Contended measurements: one lock, many parties, each with a connection of its own. Latency runs from just before a
// holder sends its release until the next holder has read its grant. Main thread.
#pragma once

#include <chrono>
#include <vector>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// Parties that release at once and queue again, spread over the first `brokers` brokers.
// Columns: p50 µs, p99 µs, grants/s, calls/grant (of scripts at the first server), least/most (grants of one party),
// CPU per grant.
Sample HotHandoff(const Lab& lab, size_t parties, size_t brokers);

// Two parties in turn: one waits 20..150 ms in the queue before the other releases. Columns: p50 µs, p99 µs.
Sample IdleHandoff(const Lab& lab, size_t brokers);

// The same values are used for other lock systems.
inline constexpr size_t kQueueWaiters = 50;
inline constexpr std::chrono::milliseconds kQueueHold{1};
// How long the waiter of an idle hand-off has waited: 20..150 ms, the same in every round.
std::vector<std::chrono::milliseconds> IdlePauses(const Size& size);

// 50 waiters, each holds once for 1 ms. Column: makespan ms, from the release that starts the queue to the last
// release.
Sample OneShotQueue(const Lab& lab);

// 50 locks that the first broker holds, and then a waiter for each at the second. Columns: calls/s held, calls/s
// waiting (of scripts at the first server), calls of a lock in 10 s.
Sample QuietLocks(const Lab& lab);

// 50 waiters behind a holder, nothing else. Columns: commands/s (also those inside scripts), EVALSHA/s, daemon CPU %.
Sample QuietWaiters(const Lab& lab);

}  // namespace distlock::bench
