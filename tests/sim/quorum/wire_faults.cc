// SPDX-License-Identifier: Apache-2.0
#include "quorum/wire_faults.h"

#include <algorithm>

namespace distlock::sim::quorum {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kSilence = milliseconds(1300);  // by then a broker has given up a connection that brings no answer

void BreakAll(const std::vector<Wire*>& wires, Duration away) {
  for (Wire* wire : wires) wire->Break(away);
}

}  // namespace

std::string Trouble(Course& course, Dice& dice, const std::vector<Wire*>& wires) {
  const Duration time = dice.Between(milliseconds(1), seconds(4));
  const Duration away = dice.Between(milliseconds(1), seconds(1));
  switch (dice.Roll(5)) {
    case 0:
      for (Wire* wire : wires) wire->Silence(time);
      return "nothing comes back for a while";
    case 1:
      for (Wire* wire : wires) wire->Silence(time);
      course.After(dice.Between(Duration(0), std::min<Duration>(time, kSilence)),
                   [wires, away] { BreakAll(wires, away); });
      return "what was asked runs, and its answers are lost";
    case 2:
    case 3: {
      // A path fails over: the old connections stall, new ones work, and what the old ones carry arrives in the end.
      const Duration late = dice.Pick(std::vector<Duration>{kSilence, seconds(4), kMostLate});
      const Duration stall = dice.Between(milliseconds(1), late);
      for (Wire* wire : wires) wire->Stall(stall);
      course.After(dice.Between(Duration(0), kSilence), [wires, away] { BreakAll(wires, away / 10); });
      return "stall";
    }
    default:
      BreakAll(wires, away);
      return "break";
  }
}

}  // namespace distlock::sim::quorum
