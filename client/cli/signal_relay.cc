// SPDX-License-Identifier: Apache-2.0
#include "signal_relay.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "signals.h"

namespace distlock::cli {
namespace {

// A sender that signals many processes reaches the watchdog, too, within this.
constexpr auto kPatience = std::chrono::milliseconds(100);

// A running command that neither catches, blocks nor ignores `signo` cannot have got it: it would have ended.
bool MayHaveGot(const Child& command, int signo) {
  if (!command.running()) return true;
  std::ifstream status(absl::StrCat("/proc/", command.pid(), "/status"));
  uint64_t set = 0;
  for (std::string word; status >> word;) {
    if (word != "SigBlk:" && word != "SigIgn:" && word != "SigCgt:") continue;
    uint64_t mask = 0;
    if (status >> std::hex >> mask) set |= mask;
  }
  return ((set >> (signo - 1)) & 1) != 0;
}

}  // namespace

bool SignalRelay::HoldBack(int signo, pid_t sender) {
  if (sender == Signals::kNobody || !EndsAProcess(signo)) return false;
  const auto same = [&](const HeldBack& other) { return other.signo == signo && other.sender == sender; };
  if (std::ranges::none_of(held_back_, same)) held_back_.push_back({signo, sender, Clock::now() + kPatience});
  return true;
}

std::vector<int> SignalRelay::Due(const Child& command) {
  std::vector<int> due;
  std::erase_if(held_back_, [&](const HeldBack& held) {
    const bool everybody = watchdog_.AlsoGot(held.signo, held.sender);
    const auto signo = static_cast<size_t>(held.signo);
    const bool spare = everybody && !spared_.test(signo) && MayHaveGot(command, held.signo);
    if (spare) spared_.set(signo);
    const bool over = everybody || Clock::now() >= held.until;
    if (over && !spare) due.push_back(held.signo);
    return over;
  });
  return due;
}

}  // namespace distlock::cli
