// SPDX-License-Identifier: Apache-2.0
//
// A second process that outlives ours by a moment: when distlockctl dies without a word (SIGKILL, out of memory) it
// ends the whole group of the command, which must not go on under no lock. PR_SET_PDEATHSIG alone reaches only the
// command itself, and a shell does not pass it on.
//
// 1. Constructed before any thread exists, as it forks without exec.
// 2. It holds no stdin, stdout or stderr, ignores signals, and ends with us.
#pragma once

#include <sys/types.h>

#include "duration.h"

namespace distlock::cli {

class Watchdog {
 public:
  Watchdog();
  ~Watchdog();  // disarms and waits for it to end
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // False when it could not be started.
  bool ok() const { return pid_ > 0; }

  // From now on our death means: SIGTERM to `group`, SIGKILL `kill_after` later.
  void Arm(pid_t group, Millis kill_after);
  void Disarm() { Arm(0, Millis(0)); }

 private:
  pid_t pid_ = -1;
  int orders_ = -1;
};

}  // namespace distlock::cli
