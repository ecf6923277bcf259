// SPDX-License-Identifier: Apache-2.0
//
// Measures etcd's lock service as the other sections measure the broker. Answers come on gRPC's threads, and all
// callers share one channel. Main thread.
#pragma once

#include <memory>

#include "bench/etcd_server.h"
#include "bench/load.h"

namespace distlock::bench {

// `callers` closed loops on keys of their own, with one lease. The latency is that of a pair.
std::unique_ptr<Load> EtcdPairs(EtcdServer& server, size_t callers);

// As IdleHandoff and OneShotQueue do; each party has a lease of its own. Throw std::runtime_error.
Sample EtcdIdleHandoff(EtcdServer& server, const Size& size);
Sample EtcdQueue(EtcdServer& server, const Size& size);

}  // namespace distlock::bench
