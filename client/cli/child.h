// SPDX-License-Identifier: Apache-2.0
//
// A command started by us in a process group of its own. Used by one thread, the one that must live as long as the
// child may: the kernel ends the child when that thread dies (PR_SET_PDEATHSIG), so it has to be main's.
//
// 1. Fork() leaves the child waiting; it becomes the command in Go(). Between the two everything that guards it is
// made.
// 2. Between fork and exec the child makes no call that is not async-signal-safe: other threads may hold any lock.
// 3. The pid stays ours until Reap() has answered an end; only then may the number mean somebody else.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distlock::cli {

struct CommandLine {
  std::vector<std::string> argv;                               // looked up in PATH
  std::vector<std::pair<std::string, std::string>> extra_env;  // on top of ours; replaces what has the same name
  sigset_t signal_mask;
  bool stdin_from_null = false;
};

class Child {
 public:
  Child() = default;
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False, with errno, when the system has no process for us.
  bool Fork(const CommandLine& command);

  // 0 when the command runs; else the errno of exec, and the child is gone and reaped.
  int Go();

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && !ended_; }

  // A status as of waitpid when the child has ended or stopped since the last call; never blocks.
  std::optional<int> Reap();

  // To every process of its group, also after the child's own end, as long as there are any. False when there are none.
  bool SignalGroup(int signo) const;
  bool GroupAlive() const { return SignalGroup(0); }

 private:
  pid_t pid_ = -1;  // also the id of its group
  bool ended_ = false;
  int go_fd_ = -1;     // one byte: become the command; closed without: exit
  int error_fd_ = -1;  // closed by a successful exec, else tells errno
};

// 0..255, or 128 + signal. REQUIRES: `status` is of an end, not of a stop.
int ExitCodeOfStatus(int status);

}  // namespace distlock::cli
