// SPDX-License-Identifier: Apache-2.0
//
// The faults of Quorum simulations: each concerns one server, which Simulation::Ail chooses. Rows of faults.cc.
#pragma once

namespace distlock::sim {

class Simulation;

void RestartServer(Simulation& simulation);  // with its data or without
void PauseServer(Simulation& simulation);
void CutOffServer(Simulation& simulation);      // from everybody
void HalfCutOffServer(Simulation& simulation);  // from some brokers, one way
void SlowServer(Simulation& simulation);
void SetServerClock(Simulation& simulation);
void RefuseAtServer(Simulation& simulation);  // writes

}  // namespace distlock::sim
