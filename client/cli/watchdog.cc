// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>

namespace distlock::cli {
namespace {

struct Orders {
  pid_t group = 0;  // 0: nothing to guard
  int64_t kill_after_ms = 0;
};

// A process that gets SIGKILL may take a moment to end, above all one with much memory.
constexpr int64_t kTimeToDieNs = 500'000'000;

int64_t BootNowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// `promised_until_ns` 0: nothing is known.
void EndGroup(const Orders& orders, int64_t promised_until_ns) {
  constexpr timespec kBetweenLooks = {0, 20'000'000};
  int64_t kill_at_ns = BootNowNs() + orders.kill_after_ms * 1'000'000;
  if (promised_until_ns != 0) kill_at_ns = std::min(kill_at_ns, promised_until_ns - kTimeToDieNs);
  ::kill(-orders.group, SIGTERM);
  ::kill(-orders.group, SIGCONT);
  while (::kill(-orders.group, 0) == 0) {
    if (BootNowNs() >= kill_at_ns) {
      ::kill(-orders.group, SIGKILL);
      return;
    }
    ::nanosleep(&kBetweenLooks, nullptr);
  }
}

[[noreturn]] void Watch(int orders_fd, const std::atomic<int64_t>* promised_until_ns) {
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
  if (orders.group > 0) EndGroup(orders, promised_until_ns == nullptr ? 0 : promised_until_ns->load());
  ::_exit(0);
}

}  // namespace

Watchdog::Watchdog() {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return;
  void* const shared =
      ::mmap(nullptr, sizeof(std::atomic<int64_t>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) promised_until_ns_ = new (shared) std::atomic<int64_t>(0);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pipe_fds[1]);
    Watch(pipe_fds[0], promised_until_ns_);
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
  if (promised_until_ns_ != nullptr) ::munmap(promised_until_ns_, sizeof(*promised_until_ns_));
}

void Watchdog::Promise(int64_t until_ns) {
  if (promised_until_ns_ != nullptr) promised_until_ns_->store(until_ns, std::memory_order_relaxed);
}

void Watchdog::Arm(pid_t group, Millis kill_after) {
  const Orders orders = {group, kill_after.count()};
  [[maybe_unused]] const ssize_t written = ::write(orders_, &orders, sizeof(orders));
}

}  // namespace distlock::cli
