// SPDX-License-Identifier: Apache-2.0
//
// The faults of Quorum worlds: each concerns one server, which World::Ail chooses. Rows of faults.cc.
#pragma once

namespace distlock::sim {

class World;

void RestartServer(World& world);  // with its data or without
void PauseServer(World& world);
void CutOffServer(World& world);      // from everybody
void HalfCutOffServer(World& world);  // from some brokers, one way
void SlowServer(World& world);
void SetServerClock(World& world);
void RefuseAtServer(World& world);  // writes

}  // namespace distlock::sim
