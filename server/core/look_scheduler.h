// SPDX-License-Identifier: Apache-2.0
//
// The hook through which parts tell the local queues that a lock becomes free without any notice. Called rarely.
#pragma once

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

class LookScheduler {
 public:
  // If streams or calls of this broker wait for the lock, asks the store about it at `at` or earlier.
  virtual void LookBy(const LockName& name, Instant at) = 0;

 protected:
  ~LookScheduler() = default;
};

}  // namespace distlock::core
