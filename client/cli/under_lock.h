// SPDX-License-Identifier: Apache-2.0
//
// Takes the locks, runs a command under them, and releases them. Main's thread only, before any other thread exists.
#pragma once

#include "supervisor.h"

namespace distlock::cli {

struct UnderLock {
  const LockFlags& lock;
  Supervision& plan;  // RunUnderLock fills in its context, lock and env
  int busy_code = kExitBusy;
};

// Returns the exit code.
int RunUnderLock(const Context& context, const UnderLock& what);

}  // namespace distlock::cli
