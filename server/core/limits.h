// SPDX-License-Identifier: Apache-2.0
//
// Every bound of the core that is not an option, with the reason for its size.
#pragma once

#include "core/types.h"

namespace distlock::core {

// One renewal call holds the store for about 1 us per lease; 100 keep that at 0.1 ms.
inline constexpr size_t kMaxRenewBatch = 100;
// Renewals that are due close together leave together: that costs the store a third less than one after the other. Due
// times are rounded up to this grid, or to a thirtieth of a short ttl. Every broker has its own grid.
inline constexpr Duration kRenewGrid = std::chrono::seconds(1);
// So many renewal commands leave at once; the next leaves when one is answered, or after the pace, so that other
// commands need not wait behind a great many of them.
inline constexpr size_t kMaxRenewalsSent = 2;
inline constexpr Duration kRenewPace = std::chrono::milliseconds(5);
// Part of the renewal interval that is random, so that leases taken together spread out.
inline constexpr double kRenewJitter = 0.1;
// CoreContext::Drift counts whole milliseconds: of the rest it misses at most twice 10 000 ppm, the largest drift.
inline constexpr Duration kDriftRounding = std::chrono::microseconds(20);
// The part of a promise to a Hold that its client is not told of, for a network that delays every message.
inline constexpr int kHoldReserve = 10;
// One attempt of a store command that is not a renewal.
inline constexpr Duration kAttemptMin = std::chrono::milliseconds(500);
inline constexpr Duration kAttemptMax = std::chrono::milliseconds(2500);
// Releases and withdrawals in flight. That is some 25 ms of the store's work: enough to keep it busy, and few enough
// that, when a session with a million leases ends, none is sent again before the store could get to it.
inline constexpr size_t kMaxReleasesSent = 1024;
// Back-off between attempts while the store answers, but not usefully.
inline constexpr Duration kRetryMin = std::chrono::milliseconds(10);
inline constexpr Duration kRetryMax = std::chrono::seconds(1);
// A lock that reaches a waiter whom a draining broker has sent to another one is kept for so long, so that its next try
// is there when it is handed on.
inline constexpr Duration kKeepForMove = std::chrono::milliseconds(500);
// A store that has been down this long fails one-try requests at once.
inline constexpr Duration kOneTryGrace = std::chrono::seconds(1);
// A lock that is taken from its holder: beyond the last promise to it and the wait for the store, so long for its
// broker to hear.
inline constexpr Duration kForceGrace = std::chrono::seconds(3);
// After a holder's ttl ends, look again this much later: the store expires keys lazily.
inline constexpr Duration kExpirySlack = std::chrono::milliseconds(3);
// Locks of one request. Each takes the store about as long as an acquire by itself.
inline constexpr size_t kMaxTogether = 64;
// Waiters one tend asks for.
inline constexpr size_t kMaxAsked = 100;
inline constexpr Duration kTendRetry = std::chrono::milliseconds(50);
// Between two looks at a lock that is watched: one that changes all the time costs the store fifty looks a second.
inline constexpr Duration kLookPace = std::chrono::milliseconds(20);
// A holder is told that somebody wants its lock no more often, however many ask for it.
inline constexpr Duration kWantedPace = std::chrono::milliseconds(100);

static_assert(kAttemptMin < kAttemptMax && kRetryMin < kRetryMax);
static_assert(kMaxRenewBatch > 0);

}  // namespace distlock::core
