// SPDX-License-Identifier: Apache-2.0
//
// Decides which signals to distlockctl are passed on to its command. systemd's KillMode=control-group, and others that
// end a container or a tree of processes, signal each process of it: then the command has its signal, and a second one
// tells many programs to stop at once. The watchdog is the witness: it gets what everybody gets, and nothing else.
// Main's thread only.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <chrono>
#include <csignal>
#include <vector>

#include "child.h"
#include "watchdog.h"

namespace distlock::cli {

class SignalRelay {
 public:
  // How soon to ask Due() again while something is held back.
  static constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

  explicit SignalRelay(Watchdog& watchdog) : watchdog_(watchdog) {}

  // True: Due() will tell, within a tenth of a second. False: the signal is passed on at once.
  bool HoldBack(int signo, pid_t sender);
  bool holds_back() const { return !held_back_.empty(); }

  // The signals that are to be passed on now. A signal is kept from the command once: its sender means a second one.
  std::vector<int> Due(const Child& command);

 private:
  using Clock = std::chrono::steady_clock;
  struct HeldBack {
    int signo;
    pid_t sender;
    Clock::time_point until;
  };

  Watchdog& watchdog_;
  std::vector<HeldBack> held_back_;
  std::bitset<NSIG> spared_;
};

}  // namespace distlock::cli
