// SPDX-License-Identifier: Apache-2.0
//
// Takes the locks, runs a command under them, and releases them. Main's thread only, before any other thread exists.
#pragma once

#include <functional>

#include "supervisor.h"

namespace distlock::cli {

struct UnderLock {
  const LockFlags& lock;
  Supervision& plan;  // RunUnderLock fills in its keys and env
  int busy_code = kExitBusy;
  // Called once, before the command starts. False: the command does not start, and the locks are released.
  std::function<bool(const MultiGuard&)> granted = [](const MultiGuard&) { return true; };
};

// Returns the exit code.
int RunUnderLock(const Context& context, const UnderLock& what);

}  // namespace distlock::cli
