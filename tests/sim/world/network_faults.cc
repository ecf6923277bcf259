// SPDX-License-Identifier: Apache-2.0
#include "world/network_faults.h"

#include "world/world.h"

namespace distlock::sim {

void MovePath(World& world) {
  const Duration longest = world.dice().Pick<Duration>({milliseconds(1500), seconds(5), seconds(20)});
  const Duration time = world.dice().Between(milliseconds(100), longest);
  const bool commands = world.dice().Chance(0.8);
  const bool answers = !commands || world.dice().Chance(0.7);
  const BrokerProcess* const one = world.dice().Chance(0.6) ? &world.AnyBroker() : nullptr;
  for (BrokerProcess* const broker : world.LiveBrokers()) {
    if (one != nullptr && broker != one) continue;
    world.env().NoteFault(FaultKind::kLinkReset, broker->actor(), time);
    for (const WirePtr& wire : broker->Wires()) {
      if (&wire->end(Wire::kClient) != broker) continue;
      if (commands) wire->Silence(Wire::kClient, world.env().now() + time);
      if (answers) wire->Silence(Wire::kServer, world.env().now() + time);
    }
  }
}

}  // namespace distlock::sim
