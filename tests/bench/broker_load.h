// SPDX-License-Identifier: Apache-2.0
//
// Uncontended load through a broker: by the lean Session stream, by unary calls, or by the C++ client library as a
// program would use it.
#pragma once

#include <memory>
#include <string>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// What the latency of a load is of: each acquire and each release, or both together.
enum class Timed { kOperation, kPair };

// `sessions` connections to `target` with one Session stream each, and `in_flight` slots on each.
std::unique_ptr<Load> BrokerSessions(std::string target, size_t sessions, size_t in_flight,
                                     Timed timed = Timed::kOperation);

// One session that takes `held` leases before it begins, keeps them, and has `in_flight` slots beside. The broker may
// still be freeing them when Stop() returns.
std::unique_ptr<Load> HoldingSession(std::string target, size_t held, double ttl_seconds, size_t in_flight);

// `clients` connections to `target`, each with one unary Acquire or Release in flight.
std::unique_ptr<Load> UnaryClients(std::string target, size_t clients);

// `clients` Clients; one slot each uses blocking calls on a thread of its own, more than one the callbacks.
std::unique_ptr<Load> LibraryClients(const Lab& lab, size_t clients, size_t in_flight);

}  // namespace distlock::bench
