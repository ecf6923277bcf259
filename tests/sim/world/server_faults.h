// SPDX-License-Identifier: Apache-2.0
//
// What disks, operators and clocks do to servers, and what happens to sentinels: rows of faults.cc.
#pragma once

#include <chrono>

namespace distlock::sim {

class World;

// The only server of a world restarts, with less than it had.
void RestartHeldOff(World& world);
// Operators give all brokers a shorter longest ttl, while longer leases are out; then servers may forget these.
void LowerLongestTtl(World& world);
// Or the longest one that clients ask for.
void RaiseLongestTtl(World& world);
// Clocks of brokers and servers, or those of all servers together, change their rates.
void SlewClocks(World& world);

// All brokers restart with the settings that their operators have changed.
void RollOut(World& world);
// All brokers are alive, and have read what others told the store.
bool AllKnowTheStore(World& world);
inline constexpr std::chrono::seconds kRollOut{1};   // until the last broker has the new settings
inline constexpr std::chrono::seconds kConnects{2};  // until a broker has read what others told the store

void HangSentinel(World& world);
void RestartSentinel(World& world);

}  // namespace distlock::sim
