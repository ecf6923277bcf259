// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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

constexpr int64_t kSameOccasionNs = 1'000'000'000;

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

}  // namespace

struct Watchdog::Shared {
  struct Got {
    std::atomic<int64_t> at_ns{0};  // 0: never, or asked for since
    std::atomic<pid_t> sender{0};
  };
  std::atomic<int64_t> promised_until_ns{0};  // 0: nothing is known
  Got got[NSIG];
};

void Watchdog::NoteSignals(int signals_fd, Shared* shared) {
  signalfd_siginfo info;
  while (::read(signals_fd, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (shared == nullptr || info.ssi_signo >= NSIG) continue;
    Shared::Got& got = shared->got[info.ssi_signo];
    got.sender.store(static_cast<pid_t>(info.ssi_pid));
    got.at_ns.store(BootNowNs());
  }
}

void Watchdog::Watch(int orders_fd, Shared* shared) {
  // A session of its own, so that the terminal's Ctrl-C, which is meant for the command, does not reach it.
  ::setsid();
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "distlock-guard");
  const int signals_fd = ::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  const int null_fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null_fd, fd);

  Orders orders;
  Orders next;
  while (true) {
    pollfd fds[2] = {{orders_fd, POLLIN, 0}, {signals_fd, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) break;
    NoteSignals(signals_fd, shared);
    if (fds[0].revents == 0) continue;
    const ssize_t n = ::read(orders_fd, &next, sizeof(next));
    if (n == 0 || (n < 0 && errno != EINTR)) break;
    if (n == static_cast<ssize_t>(sizeof(next))) orders = next;
  }
  if (orders.group > 0) EndGroup(orders, shared == nullptr ? 0 : shared->promised_until_ns.load());
  ::_exit(0);
}

Watchdog::Watchdog() {
  int pipe_fds[2];
  if (::pipe2(pipe_fds, O_CLOEXEC) != 0) return;
  void* const shared = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) shared_ = new (shared) Shared;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pipe_fds[1]);
    Watch(pipe_fds[0], shared_);
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
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

void Watchdog::Promise(int64_t until_ns) {
  if (shared_ != nullptr) shared_->promised_until_ns.store(until_ns, std::memory_order_relaxed);
}

bool Watchdog::AlsoGot(int signo, pid_t sender) {
  if (shared_ == nullptr) return false;
  Shared::Got& got = shared_->got[signo];
  const int64_t at_ns = got.at_ns.load();
  if (at_ns == 0 || got.sender.load() != sender || BootNowNs() - at_ns > kSameOccasionNs) return false;
  got.at_ns.store(0);
  return true;
}

void Watchdog::Arm(pid_t group, Millis kill_after) {
  const Orders orders = {group, kill_after.count()};
  [[maybe_unused]] const ssize_t written = ::write(orders_, &orders, sizeof(orders));
}

}  // namespace distlock::cli
