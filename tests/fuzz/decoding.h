// SPDX-License-Identifier: Apache-2.0
//
// Checks that hold for any reply tree that the store's codec is given. Single-threaded.
#pragma once

#include <hiredis/hiredis.h>

namespace distlock::fuzz {

// Decodes `reply` as the answer to every verb, to inspect, and looks at it as at an error. Aborts when the result is
// one that the core must never be told.
void DecodeEveryWay(const redisReply& reply);

}  // namespace distlock::fuzz
