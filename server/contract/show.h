// SPDX-License-Identifier: Apache-2.0
//
// Durations and lock names as text for people. Pure; any thread.
#pragma once

#include <string>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::contract {

std::string Show(core::Duration duration);  // such as 1.5s, rounded to milliseconds
// In the largest unit of which it has at least one: 3 min, 12 s, 25 h. At least 0 s.
std::string ShowRoughly(core::Duration duration);

// lock "namespace:key" as the user wrote them, cut to 160 bytes; "the lock" when `name` is empty.
std::string Show(const core::LockName& name);

}  // namespace distlock::contract
