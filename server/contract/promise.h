// SPDX-License-Identifier: Apache-2.0
//
// How long the client of a Hold may rely on its lock. Pure; any thread.
#pragma once

#include <algorithm>

#include "core/types.h"

namespace distlock::contract {

// The client counts `valid_for` from when it receives the message, the core from when it made the promise, `age` ago.
// So the client is told less: `age` is subtracted, and a tenth of the longest possible promise for the network's delay.
// A client that gets the message later than that relies on its lock for too long. A promise that is short, because
// max_hold or the ttl ends soon, is cut by a tenth of itself.
inline core::Duration PromiseOnTheWay(core::Duration valid_for, core::Duration age, core::Duration validity,
                                      core::Duration ttl) {
  constexpr int kPartForTheWay = 10;
  return std::max<core::Duration>(valid_for - age - std::min({validity, ttl, valid_for}) / kPartForTheWay, {});
}

}  // namespace distlock::contract
