// SPDX-License-Identifier: Apache-2.0
//
// From waiting for the locks to giving them back, with a command in between. Main's thread only, before any other
// exists.
#pragma once

#include <functional>

#include "supervisor.h"

namespace distlock::cli {

struct UnderLock {
  const LockFlags& lock;
  Supervision& plan;  // its keys and env are filled here
  int busy_code = kExitBusy;
  // Once, before the command starts. False: it does not start, and the locks are given back.
  std::function<bool(const MultiGuard&)> granted = [](const MultiGuard&) { return true; };
};

// The exit code.
int RunUnderLock(const Context& context, const UnderLock& what);

}  // namespace distlock::cli
