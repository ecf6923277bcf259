// SPDX-License-Identifier: Apache-2.0
//
// One view of a lock from those of several servers. Pure; any thread.
#pragma once

#include <vector>

#include "core/lock_view.h"
#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

// `views`: of the servers that answered, out of `nodes`. A holder is shown when it may have q servers: no answer can
// show more. The places are taken off what holders and waiters say of themselves.
core::LockView MergeViews(std::vector<core::LockView> views, size_t nodes);

}  // namespace distlock::store::ballot
