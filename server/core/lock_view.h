// SPDX-License-Identifier: Apache-2.0
//
// A lock as the store shows it. Values; safe on any thread.
#pragma once

#include <string>
#include <vector>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

// Secrets are inside: convert before it leaves the process.
struct LockView {
  LockName name;
  // The block that lasts longest, if a lock_delay runs; then the first 1000 holders, in the order of their grants.
  std::vector<HolderView> holders;
  uint32_t holder_count = 0;  // all of them; a block is none
  uint64_t last_token = 0;
  uint32_t queue_length = 0;
  Duration held_off{};  // so long the store grants nobody new a lock, since it may have forgotten a holder
  struct WaiterView {
    OwnerId owner{};
    std::string broker_id;
    Duration ttl{};
    StoreTime since;  // us = 0: not known
    std::string info;
  };
  std::vector<WaiterView> waiters;
};

}  // namespace distlock::core
