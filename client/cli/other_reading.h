// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean": for a command that has found nothing under the name it was given.
#pragma once

#include <distlock/inspect.h>

#include "context.h"
#include "lock_flags.h"

namespace distlock::cli {

// Whether the lock has no holder and no waiter, and no lock_delay runs.
bool IsFree(const LockInfo& lock);

// Warns when a lock that the same word may have meant is taken. Asks the broker for each of them.
void WarnOfOtherReading(const Context& context, Client& client, const LockFlags& flags);

}  // namespace distlock::cli
