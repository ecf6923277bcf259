// SPDX-License-Identifier: Apache-2.0
//
// The hook through which queues pass on what the reply to a tend says about waiters.
#pragma once

#include <vector>

#include "core/records.h"

namespace distlock::core {

class TendNews {
 public:
  // The reply to a tend sent at `sent` shows a holder: maybe a waiter of this broker.
  virtual void OnHolderSeen(const LockName& name, const HolderView& holder, Instant sent) = 0;
  // The store has forgotten the places of these waiters; in the order in which they had them.
  virtual void OnPlacesLost(const std::vector<Waiter*>& waiters) = 0;

 protected:
  ~TendNews() = default;
};

}  // namespace distlock::core
