// SPDX-License-Identifier: Apache-2.0
//
// The abilities of a kind of store. Each kind says them of itself; the core asks nothing else of its topology. Values,
// const.
#pragma once

#include <cstdint>

#include "core/types.h"

namespace distlock::core {

struct StoreTraits {
  // StoreAcquireAll works: one command can take several locks, whatever their names. Else they are taken one by one.
  bool takes_many_at_once = true;
  // The store knows whether anybody heard a notice: a grant that nobody heard of goes to the next waiter at once.
  bool counts_listeners = true;
  // PERMIT is one of its modes; EXCLUSIVE and SHARED always are. Without it such requests are refused as not supported.
  bool has_permits = true;
  // A replica may take over, which may not know the latest grants.
  bool can_fail_over = false;
  // It is several servers, most of which have to answer: what is not available is their quorum.
  bool is_quorum = false;
  // A lock may go to another server with the time at which it ends. The clocks of two servers differ by no more.
  Duration clock_spread{};
  // So many replicas have confirmed each grant before it is told.
  uint32_t replicas = 0;
};

}  // namespace distlock::core
