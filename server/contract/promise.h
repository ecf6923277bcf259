// SPDX-License-Identifier: Apache-2.0
//
// How long a Hold's client may believe. Pure; any thread.
#pragma once

#include <algorithm>

#include "core/types.h"

namespace distlock::contract {

// The client counts `valid_for` from receipt, the core from when it made the promise, `age` ago. So `age` is taken off,
// and a tenth of the longest possible promise for the way: a message that is on its way for longer is believed in for
// too long. A short promise, because max_hold or the ttl ends soon, is cut by a tenth of itself.
inline core::Duration PromiseOnTheWay(core::Duration valid_for, core::Duration age, core::Duration validity,
                                      core::Duration ttl) {
  constexpr int kPartForTheWay = 10;
  return std::max<core::Duration>(valid_for - age - std::min({validity, ttl, valid_for}) / kPartForTheWay, {});
}

}  // namespace distlock::contract
