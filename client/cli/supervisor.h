// SPDX-License-Identifier: Apache-2.0
//
// Runs one command under a lock that is held, or several, to the end of both. Main's thread only.
//
// 1. The command's own end decides the exit code, if the lock was held at that moment; else the answer is kExitLost.
// 2. When the lock ends first: --on-lost is started, the group gets SIGTERM, and --kill-after later SIGKILL. This ends
//    with the group, not with the command alone.
// 3. Signals go to the group. A stop by the terminal stops us too, so that the shell notices; the lock is then not kept
//    up, which the look at it after the continue sees before the command goes on.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "child.h"
#include "held_lock.h"
#include "signals.h"
#include "terminal.h"
#include "watchdog.h"

namespace distlock::cli {

struct Supervision {
  std::vector<std::string> command;
  std::vector<std::string> keys;  // of the guard's parts
  std::string on_lost;            // for sh -c; "" = none
  Millis kill_after{5000};
  std::vector<std::pair<std::string, std::string>> env;
  std::function<void(std::string_view)> verbose;
};

class Supervisor {
 public:
  Supervisor(const Supervision& plan, const MultiGuard& guard, LockKeeper& keeper, Signals& signals,
             Watchdog& watchdog);

  // The exit code. Neither the command nor, after a loss, its group is left behind.
  int Run();

 private:
  using Clock = std::chrono::steady_clock;

  bool Start(int* exit_code);
  void WaitForEvent();
  void TakeSignals();
  void TakeChildren();
  void FollowStop(int signo);
  void LookAtLock();
  void Lose();
  std::string LostKey() const;
  bool LossSettled();
  bool LockHeld() const;

  const Supervision& plan_;
  const MultiGuard& guard_;
  LockKeeper& keeper_;
  Signals& signals_;
  Watchdog& watchdog_;
  Terminal terminal_;

  Child child_;
  Child on_lost_;
  std::optional<int> end_status_;
  bool stop_was_asked_ = false;  // by a SIGTSTP to us, not to the command's group by the terminal
  bool lost_ = false;
  bool killed_ = false;
  Clock::time_point kill_at_{};
  Clock::time_point on_lost_until_{};
};

}  // namespace distlock::cli
