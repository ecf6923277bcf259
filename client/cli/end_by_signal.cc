// SPDX-License-Identifier: Apache-2.0
#include "end_by_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace distlock::cli {

EndBySignal::EndBySignal(Signals& signals)
    : signals_(signals), over_fd_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { Wait(); }) {}

EndBySignal::~EndBySignal() {
  ::eventfd_write(over_fd_, 1);
  thread_.join();
  ::close(over_fd_);
}

void EndBySignal::Wait() {
  pollfd fds[2] = {{signals_.fd(), POLLIN, 0}, {over_fd_, POLLIN, 0}};
  while (::poll(fds, 2, -1) < 0 || fds[1].revents == 0) {
    while (const auto signo = signals_.Take()) {
      if (*signo == SIGTSTP) StopAsBy(SIGTSTP);
      if (EndsAProcess(*signo)) end_.request_stop();
    }
  }
}

}  // namespace distlock::cli
