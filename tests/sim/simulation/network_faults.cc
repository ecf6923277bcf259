// SPDX-License-Identifier: Apache-2.0
#include "simulation/network_faults.h"

#include "simulation/simulation.h"

namespace distlock::sim {

void MovePath(Simulation& simulation) {
  const Duration longest = simulation.dice().Pick<Duration>({milliseconds(1500), seconds(5), seconds(20)});
  const Duration time = simulation.dice().Between(milliseconds(100), longest);
  const bool commands = simulation.dice().Chance(0.8);
  const bool answers = !commands || simulation.dice().Chance(0.7);
  const BrokerProcess* const one = simulation.dice().Chance(0.6) ? &simulation.AnyBroker() : nullptr;
  for (BrokerProcess* const broker : simulation.LiveBrokers()) {
    if (one != nullptr && broker != one) continue;
    simulation.env().NoteFault(FaultKind::kLinkReset, broker->actor(), time);
    for (const WirePtr& wire : broker->Wires()) {
      if (&wire->end(Wire::kClient) != broker) continue;
      if (commands) wire->Silence(Wire::kClient, simulation.env().now() + time);
      if (answers) wire->Silence(Wire::kServer, simulation.env().now() + time);
    }
  }
}

}  // namespace distlock::sim
