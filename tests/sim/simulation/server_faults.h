// SPDX-License-Identifier: Apache-2.0
//
// Faults of disks, operators, clocks and sentinels: rows of faults.cc.
#pragma once

#include <chrono>

namespace distlock::sim {

class Simulation;

// The only server of a simulation restarts, with less than it had.
void RestartHeldOff(Simulation& simulation);
// Operators give all brokers a shorter longest ttl, while longer leases are out; then servers may forget these.
void LowerLongestTtl(Simulation& simulation);
// Or the longest one that clients ask for.
void RaiseLongestTtl(Simulation& simulation);
// Clocks of brokers and servers, or those of all servers together, change their rates.
void SlewClocks(Simulation& simulation);

// All brokers restart with the settings that their operators have changed.
void RollOut(Simulation& simulation);
// All brokers are alive, and have read what others told the store.
bool AllKnowTheStore(Simulation& simulation);
inline constexpr std::chrono::seconds kRollOut{1};   // until the last broker has the new settings
inline constexpr std::chrono::seconds kConnects{2};  // until a broker has read what others told the store

void HangSentinel(Simulation& simulation);
void RestartSentinel(Simulation& simulation);

}  // namespace distlock::sim
