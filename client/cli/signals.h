// SPDX-License-Identifier: Apache-2.0
//
// The signals of this process as a file descriptor, so that one poll() waits for them and for the lock alike.
//
// 1. Constructed before any thread exists: every later thread inherits the blocked mask, so none can be hit.
// 2. Dispositions are left alone (but SIGCHLD's): what was ignored when we were started (nohup, a shell's `&`) stays
//    ignored, here and in the children.
// 3. Children get original_mask() back before exec.
#pragma once

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

  const sigset_t& original_mask() const { return original_mask_; }

 private:
  int fd_ = -1;
  sigset_t original_mask_;
};

// Its default action ends a process.
bool EndsAProcess(int signo);

// Does to this process what `signo` (SIGTSTP, SIGTTIN, SIGTTOU) would have done were it not blocked; returns when
// somebody continued us, or at once when nobody could (the kernel does not stop an orphaned process group).
void StopAsBy(int signo);

}  // namespace distlock::cli
