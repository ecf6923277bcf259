// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <unistd.h>

namespace distlock::cli {

Terminal::Terminal() {
  present_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) >= 0 && ::tcgetattr(STDIN_FILENO, &modes_) == 0;
}

bool Terminal::Ours() const { return present_ && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

void Terminal::GiveAtStart(pid_t group) const {
  if (::isatty(STDOUT_FILENO) == 1) Give(group);
}

bool Terminal::Give(pid_t group) const { return Ours() && ::tcsetpgrp(STDIN_FILENO, group) == 0; }

void Terminal::TakeBack(pid_t group, bool restore_modes) const {
  if (!present_ || ::tcgetpgrp(STDIN_FILENO) != group) return;
  ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
  if (restore_modes) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_);
}

}  // namespace distlock::cli
