// SPDX-License-Identifier: Apache-2.0
//
// The faults of the network that concern more than one connection. Rows of faults.cc.
#pragma once

namespace distlock::sim {

class Simulation;

// The path from a broker to all servers, or from all brokers, fails over: connections that exist stall, new ones do
// not, and what was written to the old ones arrives late.
void MovePath(Simulation& simulation);

}  // namespace distlock::sim
