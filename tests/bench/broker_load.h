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

// The unit of a load's latency: each acquire and each release, or a pair of both.
enum class Timed { kOperation, kPair };

// `sessions` connections to `target` with one Session stream each, and `in_flight` slots on each.
std::unique_ptr<Load> BrokerSessions(std::string target, size_t sessions, size_t in_flight,
                                     Timed timed = Timed::kOperation);

// One session that takes `held` leases before it begins and keeps them, and has `in_flight` slots as well. The broker
// may still be freeing the leases when Stop() returns.
std::unique_ptr<Load> HoldingSession(std::string target, size_t held, double ttl_seconds, size_t in_flight);

// `clients` connections to `target`, each with one unary Acquire or Release in flight.
std::unique_ptr<Load> UnaryClients(std::string target, size_t clients);

// `clients` Clients with `in_flight` slots each. A single slot uses blocking calls on a thread of its own, several
// slots use callbacks.
std::unique_ptr<Load> LibraryClients(const Lab& lab, size_t clients, size_t in_flight);

}  // namespace distlock::bench
