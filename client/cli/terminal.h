// SPDX-License-Identifier: Apache-2.0
//
// Job control for a command in its own process group: while distlockctl runs in the foreground of the session's
// terminal, the command gets it, so that it can read and Ctrl-C and Ctrl-Z reach it. The terminal is /dev/tty: ssh,
// sudo and others ask there whatever stdin is. Does nothing in a session without one. One thread; SIGTTOU must be
// blocked (signals.h).
#pragma once

#include <sys/types.h>
#include <termios.h>

namespace distlock::cli {

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // True when the session has a terminal that this process may hand to the command.
  bool present() const { return fd_ >= 0; }

  // Called at the start: gives the terminal only when stdin and stdout are terminals, too. In `run ... | less` and
  // `ssh host tar c | run ...` the other program shares this process's group and may need the terminal; the command
  // gets it when it first asks for it (Give).
  void GiveAtStart(pid_t group);

  // Makes `group` the foreground group if this process's group is. Returns whether it did.
  bool Give(pid_t group);

  // After a stop: gives the terminal if `group` has asked for it before, else as at the start.
  void GiveAgain(pid_t group);

  // Takes the terminal back if `group` has it. `restore_modes` restores the terminal's modes of the start, for a
  // command that died by a signal and may have left the terminal raw.
  void TakeBack(pid_t group, bool restore_modes) const;

 private:
  int fd_ = -1;
  bool wanted_ = false;  // by the command
  termios modes_{};
};

}  // namespace distlock::cli
