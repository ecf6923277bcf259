// SPDX-License-Identifier: Apache-2.0
//
// Uncontended load through a broker: by the lean Session stream, by unary calls, or by the C++ client library as a
// program would use it.
#pragma once

#include <memory>

#include "bench/lab.h"
#include "bench/load.h"
#include "bench/target.h"

namespace distlock::bench {

// The unit of a load's latency: each acquire and each release, or a pair of both.
enum class Timed { kOperation, kPair };

// `sessions` connections to `target` with one Session stream each, and `in_flight` slots on each.
std::unique_ptr<Load> BrokerSessions(Target target, size_t sessions, size_t in_flight, Timed timed = Timed::kOperation);

// One session whose `in_flight` slots all read the same lock.
std::unique_ptr<Load> ReadingSession(Target target, size_t in_flight);

// One session that takes `held` leases before it begins and keeps them, and has `in_flight` slots as well. The broker
// may still be freeing the leases when Stop() returns.
std::unique_ptr<Load> HoldingSession(Target target, size_t held, double ttl_seconds, size_t in_flight);

// `clients` connections to `target`, each with one unary Acquire or Release in flight.
std::unique_ptr<Load> UnaryClients(Target target, size_t clients);

// How a caller of the library gives its lock back: by Guard::Release, which waits for the answer, or by leaving the
// guard's scope, which sends the release and waits for nothing. The next acquire of the same lock stands behind it.
enum class Released { kAwaited, kByScope };

struct BlockingShape {
  size_t clients = 1;
  size_t callers = 1;  // threads of each Client
  Released release = Released::kAwaited;
  bool waits = false;               // Lock() instead of TryLock()
  Timed timed = Timed::kOperation;  // an operation by scope is an acquire
};

// Clients of the C++ library, each with some threads that make blocking calls, each thread on a lock of its own.
std::unique_ptr<Load> BlockingClients(const Lab& lab, const BlockingShape& shape);

// `clients` Clients with `in_flight` slots each, which go on by callbacks.
std::unique_ptr<Load> CallbackClients(const Lab& lab, size_t clients, size_t in_flight);

}  // namespace distlock::bench
