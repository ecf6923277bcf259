// SPDX-License-Identifier: Apache-2.0
//
// What the other sections measure of the broker, of etcd's lock service: its answers come on gRPC's threads, all
// callers share one channel. Main thread.
#pragma once

#include <memory>

#include "bench/etcd_server.h"
#include "bench/load.h"

namespace distlock::bench {

// `callers` closed loops on keys of their own, on one lease. The latency is of one pair.
std::unique_ptr<Load> EtcdPairs(EtcdServer& server, size_t callers);

// As IdleHandoff and OneShotQueue do; each party has a lease of its own. Throw std::runtime_error.
Sample EtcdIdleHandoff(EtcdServer& server, const Size& size);
Sample EtcdQueue(EtcdServer& server, const Size& size);

}  // namespace distlock::bench
