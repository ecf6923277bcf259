// SPDX-License-Identifier: Apache-2.0
//
// A detached lease that its caller takes more than once. The store knows of one lease and the caller's lease ids carry
// how often it was taken, so all that there is to decide is decided from what the store shows. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <variant>

#include "core/events.h"
#include "core/lock_view.h"

namespace distlock::core {

// One grant of a lock, as its caller's lease id names it.
struct DetachedLease {
  OwnerId owner{};
  uint64_t token = 0;
  Duration ttl{};
  uint32_t hold_count = 1;
};

// Whether the store still shows this very grant.
bool IsHeld(const LockView& view, const DetachedLease& lease);

// Takes `lease` once more, as `wants` says. Granted.valid_for counts from before the store was asked for `view`, and is
// shorter by what the clocks may differ in rate. Refused: the lease is gone, cannot be seen among very many holders, or
// is held otherwise. `want_of` tells mode and permits of a holder.
std::variant<Granted, Refused> TakeDetachedAgain(const LockView& view, const DetachedLease& lease, const Want& wants,
                                                 const std::function<Want(const HolderView&)>& want_of,
                                                 uint32_t clock_drift_ppm);

}  // namespace distlock::core
