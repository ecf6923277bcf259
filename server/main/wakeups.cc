// SPDX-License-Identifier: Apache-2.0
#include "main/wakeups.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace distlock {
namespace {

sigset_t Waited() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

int BlockAndOpen() {
  // Writing to a closed connection must be an error, not the end of the daemon.
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = Waited();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

Wakeups::Wakeups() : signals_(BlockAndOpen()), notices_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Wakeups::~Wakeups() {
  close(signals_);
  close(notices_);
}

Wake Wakeups::Wait(absl::Duration timeout) {
  pollfd fds[] = {{signals_, POLLIN, 0}, {notices_, POLLIN, 0}};
  const absl::Duration most = std::min(timeout, absl::Hours(24));
  const int milliseconds = timeout == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(most));
  while (poll(fds, 2, milliseconds) < 0 && errno == EINTR) {
  }
  signalfd_siginfo info;
  if (read(signals_, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGHUP) return Wake::kReload;
    return info.ssi_signo == SIGCHLD ? Wake::kChild : Wake::kStop;
  }
  uint64_t count = 0;
  return read(notices_, &count, sizeof(count)) == sizeof(count) ? Wake::kNotice : Wake::kTimeout;
}

void Wakeups::Notify() {
  const uint64_t one = 1;
  // The write fails only when a notice waits already.
  [[maybe_unused]] const ssize_t written = write(notices_, &one, sizeof(one));
}

void Wakeups::LetGo() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace distlock
