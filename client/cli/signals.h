// SPDX-License-Identifier: Apache-2.0
//
// The signals of this process as a file descriptor, so that one poll() waits for signals and for the lock.
//
// 1. Constructed before any other thread exists: later threads inherit the blocked mask, so no signal interrupts them.
// 2. Changes no disposition but SIGCHLD's: a signal that was ignored at the start (nohup, a shell's `&`) stays ignored,
//    here and in the children.
// 3. Children get original_mask() back before exec.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>

namespace distlock::cli {

class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Readable when Take() has something.
  int fd() const { return fd_; }

  // The next signal that has arrived; never blocks.
  std::optional<int> Take();

  // The process that sent what Take() has returned last; kNobody: the kernel did, as for Ctrl-C.
  pid_t sender() const { return sender_; }
  static constexpr pid_t kNobody = -1;

  const sigset_t& original_mask() const { return original_mask_; }

 private:
  int fd_ = -1;
  pid_t sender_ = kNobody;
  sigset_t original_mask_;
};

// Whether the default action of `signo` ends a process.
bool EndsAProcess(int signo);

// Stops this process as `signo` (SIGTSTP, SIGTTIN, SIGTTOU) would have done if it were not blocked. Returns after a
// SIGCONT, or at once and false in an orphaned process group, which the kernel does not stop.
bool StopAsBy(int signo);

}  // namespace distlock::cli
