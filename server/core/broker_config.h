// SPDX-License-Identifier: Apache-2.0
//
// The options of a broker core, and the figures that it tells about itself. Values; immutable.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/store_traits.h"
#include "core/types.h"

namespace distlock::core {

struct BrokerConfig {
  Duration validity = std::chrono::seconds(3);       // V: the longest promise to a client
  uint32_t clock_drift_ppm = 500;                    // bound on the rate error of any machine's clock
  double renew_fraction = 1.0 / 3;                   // of the ttl, from send to next renewal; (0, 0.5]
  Duration store_timeout = std::chrono::seconds(5);  // how long a caller waits for a store that does not answer
  Duration queue_slot = std::chrono::seconds(30);    // how long the store keeps this broker's waiters without a tend
  uint32_t max_leases_per_session = 10'000;          // granted and waiting together
  StoreTraits store;                                 // of the store behind this core
  uint64_t seed = 1;                                 // of the jitter
};

struct BrokerStats {
  size_t sessions = 0;
  size_t leases = 0;            // renewed here, or waiting for their last promise to pass
  size_t waiters = 0;           // acquires not answered yet
  size_t pending_releases = 0;  // releases and withdrawals not confirmed yet
  size_t queues = 0;            // locks with waiters here
  size_t watches = 0;           // locks that are watched here
  size_t ops = 0;               // store commands in flight
  size_t timers = 0;
  bool draining = false;
};

}  // namespace distlock::core
