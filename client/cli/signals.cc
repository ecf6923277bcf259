// SPDX-License-Identifier: Apache-2.0
#include "signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace distlock::cli {
namespace {

// The signals that are passed on to the command, and SIGCHLD, which reports its end or stop.
constexpr int kWatched[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1, SIGUSR2,
                            SIGALRM, SIGTSTP, SIGWINCH, SIGCONT, SIGCHLD};

// Blocked and never read: a write to a closed pipe, or setting the terminal's group from the background, must fail with
// an error. It must not end or stop the process that keeps the lock.
constexpr int kUnwanted[] = {SIGPIPE, SIGTTIN, SIGTTOU};

bool Ignored(int signo) {
  struct sigaction action;
  return ::sigaction(signo, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  // If SIGCHLD is ignored, the kernel reaps children itself and their exit status is lost.
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signo : kWatched) {
    // signalfd would also report ignored signals, since the kernel queues a blocked signal even when it is ignored.
    if (!Ignored(signo)) ::sigaddset(&watched, signo);
  }
  sigset_t blocked = watched;
  for (const int signo : kUnwanted) ::sigaddset(&blocked, signo);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &original_mask_);
  fd_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

Signals::~Signals() {
  if (fd_ >= 0) ::close(fd_);
}

std::optional<int> Signals::Take() {
  signalfd_siginfo info;
  if (::read(fd_, &info, sizeof(info)) != static_cast<ssize_t>(sizeof(info))) return std::nullopt;
  sender_ = info.ssi_code <= 0 ? static_cast<pid_t>(info.ssi_pid) : kNobody;
  return static_cast<int>(info.ssi_signo);
}

bool EndsAProcess(int signo) { return signo != SIGTSTP && signo != SIGWINCH && signo != SIGCONT && signo != SIGCHLD; }

bool StopAsBy(int signo) {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signo);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signo);
  ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGCONT) == 1;
}

}  // namespace distlock::cli
