// SPDX-License-Identifier: Apache-2.0
//
// Runs one command under one or more held locks, and handles the end of the command and the loss of a lock. Main's
// thread only.
//
// 1. The exit code is the command's own if the lock was held when the command ended, else kExitLost.
//    With wait_group it is still held until the last process of the command's group has ended.
// 2. When the lock ends first: starts --on-lost, and sends the group SIGTERM and --kill-after later SIGKILL. Run() then
//    returns when the whole group has ended, not only the command.
// 3. Signals go to the group, unless the group has got them as well (signal_relay.h). When the terminal stops the
//    command, distlockctl stops too, so that the shell notices. No lock is renewed while it is stopped; so after
//    SIGCONT it checks the lock before the command goes on.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "child.h"
#include "held_lock.h"
#include "signal_relay.h"
#include "signals.h"
#include "terminal.h"
#include "watchdog.h"

namespace distlock::cli {

struct Supervision {
  const Context* context = nullptr;
  const LockFlags* lock = nullptr;  // its keys are those of the guard's parts
  std::vector<std::string> command;
  std::string on_lost;  // for sh -c; "" = none
  Millis kill_after{5000};
  std::vector<std::pair<std::string, std::string>> env;
  bool verbose = false;
  bool wait_group = false;  // the command ends when the last process of its group has ended

  // With `verbose`, prints on stderr what happens: a line of text, or an event as `hold` prints it.
  void Say(std::string_view text, const Json& event) const {
    if (verbose) context->Tell(text, event);
  }
};

class Supervisor {
 public:
  Supervisor(const Supervision& plan, const MultiGuard& guard, LockKeeper& keeper, Signals& signals,
             Watchdog& watchdog);

  // Returns the exit code when the command has ended and, with wait_group or after a loss, its whole group.
  int Run();

 private:
  using Clock = std::chrono::steady_clock;

  bool Start(int* exit_code);
  void WaitForEvent();
  void TakeSignals();
  void PassOn(int signo) const;
  void TakeChildren();
  void FollowStop(int signo);
  void LookAtLock();
  void Lose();
  std::string LostKey() const;
  bool Done();
  bool LossSettled();
  bool LockHeld() const;

  const Supervision& plan_;
  const MultiGuard& guard_;
  LockKeeper& keeper_;
  Signals& signals_;
  Watchdog& watchdog_;
  SignalRelay relay_;
  Terminal terminal_;

  Child child_;
  Child on_lost_;
  std::optional<int> end_status_;
  bool stop_was_asked_ = false;  // by a SIGTSTP to distlockctl itself, not by the terminal
  bool lost_ = false;
  bool killed_ = false;
  Clock::time_point kill_at_{};
  Clock::time_point on_lost_until_{};
};

}  // namespace distlock::cli
