// SPDX-License-Identifier: Apache-2.0
//
// How long locks are held and waited for through one broker core, for metrics. Values.
#pragma once

#include <cstddef>
#include <vector>

#include "core/types.h"

namespace distlock::core {

struct BrokerLoad {
  struct Part {
    Instant oldest_grant = kNever;  // of the leases that are renewed here; kNever: there are none
    size_t longest_queue = 0;       // most waiters here for one lock
  };
  Part all;
  std::vector<Part> of_namespace;  // in the order in which they were asked for
};

}  // namespace distlock::core
