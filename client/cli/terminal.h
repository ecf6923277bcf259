// SPDX-License-Identifier: Apache-2.0
//
// Job control for a command in its own process group: while it runs in the foreground, the terminal is its own, so
// that it can read and that Ctrl-C and Ctrl-Z reach it. Does nothing when stdin is no terminal. One thread; SIGTTOU
// must be blocked (signals.h).
#pragma once

#include <sys/types.h>
#include <termios.h>

namespace distlock::cli {

class Terminal {
 public:
  Terminal();

  // stdin is a terminal, and this process may give it away.
  bool present() const { return present_; }

  // True when the terminal listens to our group at this moment, i.e. the shell has us in the foreground.
  bool Ours() const;

  // At the start: only when stdout is a terminal, too. In `run ... | less` the reader at the other end of the pipe
  // shares our group and needs the terminal; the command gets it when it asks (Give).
  void GiveAtStart(pid_t group) const;

  // If it is ours to give.
  bool Give(pid_t group) const;

  // If `group` has it. A command that died by a signal may have left it raw: `restore_modes` puts back what we found.
  void TakeBack(pid_t group, bool restore_modes) const;

 private:
  bool present_ = false;
  termios modes_{};
};

}  // namespace distlock::cli
