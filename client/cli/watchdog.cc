// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>

namespace distlock::cli {
namespace {

struct Orders {
  pid_t group = 0;  // 0: nothing to guard
  int64_t kill_after_ms = 0;
};

void EndGroup(const Orders& orders) {
  using Clock = std::chrono::steady_clock;
  constexpr timespec kBetweenLooks = {0, 20'000'000};
  const auto kill_at = Clock::now() + Millis(orders.kill_after_ms);
  ::kill(-orders.group, SIGTERM);
  ::kill(-orders.group, SIGCONT);
  while (::kill(-orders.group, 0) == 0) {
    if (Clock::now() >= kill_at) {
      ::kill(-orders.group, SIGKILL);
      return;
    }
    ::nanosleep(&kBetweenLooks, nullptr);
  }
}

[[noreturn]] void Watch(int orders_fd) {
  // A session of its own, so that the terminal's Ctrl-C, which is meant for the command, does not reach it.
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "distlock-guard");
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null_fd, fd);

  Orders orders;
  Orders next;
  ssize_t n;
  while ((n = ::read(orders_fd, &next, sizeof(next))) != 0) {
    if (n == static_cast<ssize_t>(sizeof(next))) orders = next;
    if (n < 0 && errno != EINTR) break;
  }
  if (orders.group > 0) EndGroup(orders);
  ::_exit(0);
}

}  // namespace

Watchdog::Watchdog() {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pipe_fds[1]);
    Watch(pipe_fds[0]);
  }
  ::close(pipe_fds[0]);
  orders_ = pipe_fds[1];
}

Watchdog::~Watchdog() {
  if (orders_ >= 0) {
    Disarm();
    ::close(orders_);
  }
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void Watchdog::Arm(pid_t group, Millis kill_after) {
  const Orders orders = {group, kill_after.count()};
  [[maybe_unused]] const ssize_t written = ::write(orders_, &orders, sizeof(orders));
}

}  // namespace distlock::cli
