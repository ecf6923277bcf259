// SPDX-License-Identifier: Apache-2.0
//
// What a Hold's client may be told of time. Pure; any thread.
#pragma once

#include <algorithm>

#include "core/types.h"

namespace distlock::contract {

// A Hold's client counts from receipt, the core from when it said so, `age` ago. What has waited here is not promised
// again, and a tenth of what a promise can be is kept back for the way: a message that takes longer is believed for too
// long. Of a promise that is short, because max_hold or the ttl ends soon, a tenth of itself.
inline core::Duration PromiseOnTheWay(core::Duration valid_for, core::Duration age, core::Duration validity,
                                      core::Duration ttl) {
  constexpr int kPartForTheWay = 10;
  return std::max<core::Duration>(valid_for - age - std::min({validity, ttl, valid_for}) / kPartForTheWay, {});
}

}  // namespace distlock::contract
