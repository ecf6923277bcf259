// SPDX-License-Identifier: Apache-2.0
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace distlock::cli {

Terminal::Terminal() : fd_(::open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  if (fd_ >= 0 && (::tcgetpgrp(fd_) < 0 || ::tcgetattr(fd_, &modes_) != 0)) ::close(std::exchange(fd_, -1));
}

Terminal::~Terminal() {
  if (fd_ >= 0) ::close(fd_);
}

void Terminal::GiveAtStart(pid_t group) {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) Give(group);
}

bool Terminal::Give(pid_t group) {
  wanted_ = true;
  return present() && ::tcgetpgrp(fd_) == ::getpgrp() && ::tcsetpgrp(fd_, group) == 0;
}

void Terminal::GiveAgain(pid_t group) {
  if (!wanted_) return GiveAtStart(group);
  Give(group);
}

void Terminal::TakeBack(pid_t group, bool restore_modes) const {
  if (!present() || ::tcgetpgrp(fd_) != group) return;
  ::tcsetpgrp(fd_, ::getpgrp());
  if (restore_modes) ::tcsetattr(fd_, TCSADRAIN, &modes_);
}

}  // namespace distlock::cli
