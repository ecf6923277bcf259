// SPDX-License-Identifier: Apache-2.0
//
// Job control for a command in its own process group: while distlockctl runs in the foreground, the command gets the
// terminal, so that it can read and Ctrl-C and Ctrl-Z reach it. Does nothing when stdin is not a terminal. One thread;
// SIGTTOU must be blocked (signals.h).
#pragma once

#include <sys/types.h>
#include <termios.h>

namespace distlock::cli {

class Terminal {
 public:
  Terminal();

  // True when stdin is a terminal that this process may hand to the command.
  bool present() const { return present_; }

  // True when this process's group is the terminal's foreground group.
  bool Ours() const;

  // Called at the start: gives the terminal only when stdout is a terminal, too. In `run ... | less`, less shares this
  // process's group and needs the terminal; the command gets it when it first reads (Give).
  void GiveAtStart(pid_t group) const;

  // Makes `group` the foreground group if this process's group is. Returns whether it did.
  bool Give(pid_t group) const;

  // Takes the terminal back if `group` has it. `restore_modes` restores the terminal's modes of the start, for a
  // command that died by a signal and may have left the terminal raw.
  void TakeBack(pid_t group, bool restore_modes) const;

 private:
  bool present_ = false;
  termios modes_{};
};

}  // namespace distlock::cli
