// SPDX-License-Identifier: Apache-2.0
//
// A command that distlockctl starts in a process group of its own. Only main's thread may use it: the kernel ends the
// child when the thread that started it dies (PR_SET_PDEATHSIG).
//
// 1. Fork() leaves the child waiting; Go() turns it into the command. Between the two the caller sets up all that
//    guards the child.
// 2. Between fork and exec the child makes only async-signal-safe calls, since other threads may have held any mutex.
// 3. The pid stays the child's until ReapAny() has returned its end; only then may another process get the number.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace distlock::cli {

struct CommandLine {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  std::vector<std::pair<std::string, std::string>>
      extra_env;  // added to this process's environment, or replaces a variable in it
  sigset_t signal_mask;
  bool stdin_from_null = false;
};

// A child of this process that has ended or stopped.
struct Reaped {
  pid_t pid;
  int status;  // of waitpid
};

// The next one, whichever it is; never blocks. A process whose parent has ended may have become this process's own
// child (PID 1 of a container, PR_SET_CHILD_SUBREAPER), and stays a zombie until it is reaped here.
std::optional<Reaped> ReapAny();

class Child {
 public:
  Child() = default;
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False, with errno, when the system cannot start a process.
  bool Fork(const CommandLine& command);

  // 0 when the command runs; else the errno of exec, and the child has ended and is reaped.
  int Go();

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && !ended_; }

  // Whether `reaped` is this child, which has ended then, or has stopped.
  bool Note(const Reaped& reaped);

  // Signals every process of the child's group, also after the child's own end. False when the group has no process
  // left.
  bool SignalGroup(int signo) const;
  bool GroupAlive() const { return SignalGroup(0); }

 private:
  pid_t pid_ = -1;  // also the id of its group
  bool ended_ = false;
  int go_fd_ = -1;     // a byte in it: become the command; closed without one: exit
  int error_fd_ = -1;  // a successful exec closes it; else it brings errno
};

// 0..255, or 128 + signal. REQUIRES: `status` is that of an end, not of a stop.
int ExitCodeOfStatus(int status);

}  // namespace distlock::cli
