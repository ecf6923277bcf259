// SPDX-License-Identifier: Apache-2.0
//
// Durations and lock names as text for people. Pure; any thread.
#pragma once

#include <string>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::contract {

std::string Show(core::Duration duration);  // such as 1.5s, rounded to milliseconds

// lock "namespace:key" as the user wrote them, cut to 160 bytes; "the lock" when `name` is empty.
std::string Show(const core::LockName& name);

}  // namespace distlock::contract
