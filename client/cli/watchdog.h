// SPDX-License-Identifier: Apache-2.0
//
// A second process for the case that distlockctl dies without a chance to act (SIGKILL, out of memory): it then ends
// the whole process group of the command, which must not go on without the lock. PR_SET_PDEATHSIG reaches only the
// command itself, and a shell does not pass the signal on.
//
// 1. Constructed before any other thread exists, as it forks without exec.
// 2. The process has /dev/null as stdin, stdout and stderr, blocks signals, and ends when distlockctl ends.
// 3. It is in a session of its own. A signal that reaches it, too, was sent to each process of a unit or container, as
//    systemd does by default: then the command has got it already.
#pragma once

#include <sys/types.h>

#include <cstdint>

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

  // From now on, when distlockctl dies, `group` gets SIGTERM, and SIGKILL `kill_after` later, or a moment before the
  // last promise ends.
  void Arm(pid_t group, Millis kill_after);
  // Until when the lock is promised, by CLOCK_BOOTTIME.
  void Promise(int64_t until_ns);
  void Disarm() { Arm(0, Millis(0)); }

  // Whether `sender` has sent `signo` to the watchdog, too, within the last second. True once for each signal.
  bool AlsoGot(int signo, pid_t sender);

 private:
  struct Shared;  // in memory that both processes see
  [[noreturn]] static void Watch(int orders_fd, Shared* shared);
  static void NoteSignals(int signals_fd, Shared* shared);

  pid_t pid_ = -1;
  int orders_ = -1;
  Shared* shared_ = nullptr;  // null: there was no memory
};

}  // namespace distlock::cli
