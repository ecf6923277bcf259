// SPDX-License-Identifier: Apache-2.0
//
// The hook through which notes tell what the store has answered.
#pragma once

#include <cstdint>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::core {

class NoteNews {
 public:
  // A command sent at `sent` has begun a ttl of the lock that `owner` has here. `is_known`: the store has it under that
  // owner from now on; else another command tells it.
  virtual void OnNoted(const LockName& name, const OwnerId& owner, Instant sent, Duration ttl, uint32_t queue_length,
                       bool is_known) = 0;
  // The store has the lock under none of our owners; `owner` had it here.
  virtual void OnNotOurs(const LockName& name, const OwnerId& owner) = 0;
  // Something waits until the store knows this owner, or knows that it is gone.
  virtual void OnAwaited(const OwnerId& owner) = 0;
  // What waited for the store's answer about this owner may go on.
  virtual void OnSettled(const OwnerId& owner) = 0;

 protected:
  ~NoteNews() = default;
};

}  // namespace distlock::core
