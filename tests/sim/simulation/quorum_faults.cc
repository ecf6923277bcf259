// SPDX-License-Identifier: Apache-2.0
#include "simulation/quorum_faults.h"

#include "simulation/simulation.h"

namespace distlock::sim {
namespace {

// Mostly short, sometimes long enough for every lease to lapse.
Duration SomeTime(Simulation& simulation) {
  return simulation.dice().Between(milliseconds(1), simulation.dice().Chance(0.7) ? seconds(2) : seconds(20));
}

}  // namespace

void RestartServer(Simulation& simulation) {
  const Duration down = simulation.dice().Between(milliseconds(1), seconds(5));
  if (StoreProcess* server = simulation.Ail(FaultKind::kStoreRestarted, down + simulation.longest_ttl())) {
    server->Restart(down, server->AnyMemory());
  }
}

void PauseServer(Simulation& simulation) {
  const Duration time = SomeTime(simulation);
  if (StoreProcess* server = simulation.Ail(FaultKind::kStorePaused, time)) server->Pause(time);
}

void CutOffServer(Simulation& simulation) {
  const Duration time = SomeTime(simulation);
  StoreProcess* const server = simulation.Ail(FaultKind::kLinkSilent, time);
  if (server == nullptr) return;
  for (const WirePtr& wire : server->Wires()) wire->SilenceBoth(simulation.env().now() + time);
}

void HalfCutOffServer(Simulation& simulation) {
  const Duration time = SomeTime(simulation);
  StoreProcess* const server = simulation.Ail(FaultKind::kLinkOneWay, time);
  if (server == nullptr) return;
  const Wire::Side side = simulation.dice().Chance(0.5) ? Wire::kClient : Wire::kServer;
  for (const WirePtr& wire : server->Wires()) {
    if (simulation.dice().Chance(0.6)) wire->Silence(side, simulation.env().now() + time);
  }
}

void SlowServer(Simulation& simulation) {
  const Duration time = SomeTime(simulation);
  StoreProcess* const server = simulation.Ail(FaultKind::kLinkSlow, time + seconds(2));
  if (server == nullptr) return;
  const Duration by = simulation.dice().Between(milliseconds(20), milliseconds(1500));
  const std::vector<WirePtr> wires = server->Wires();
  for (const WirePtr& wire : wires) wire->Lag(Wire::kServer, by);
  simulation.For(time, [wires] {
    for (const WirePtr& wire : wires) wire->Lag(Wire::kServer, Duration(0));
  });
}

// One server's at a time: keys that end too early at two of them are two faults that nobody sees.
void SetServerClock(Simulation& simulation) {
  if (simulation.env().now() < simulation.clocks_right_at) return;
  const Duration time = SomeTime(simulation);
  const Duration ttl = simulation.longest_ttl();
  // As of a restart: its keys may be gone, and no belief is excused by that.
  StoreProcess* const server = simulation.Ail(FaultKind::kStoreRestarted, time + ttl);
  if (server == nullptr) return;
  const Duration by =
      simulation.dice().Pick<Duration>({milliseconds(100), ttl / 2, ttl * 2, milliseconds(-100), -ttl, -hours(1)});
  simulation.clocks_right_at = simulation.env().now() + time + 2 * ttl + seconds(10);
  simulation.env().Log(
      [&] { return server->name() + "'s clock is set by " + std::to_string(by / milliseconds(1)) + " ms"; });
  server->StepClock(by);
  simulation.For(time, [server, by] { server->StepClock(-by); });
}

// Servers that are used alike run out of disk alike: the fault may reach several.
void RefuseAtServer(Simulation& simulation) {
  do {
    const Duration time = SomeTime(simulation);
    StoreProcess* const server = simulation.Ail(FaultKind::kStoreRefuses, time);
    if (server == nullptr) return;
    server->model().RefuseWrites("MISCONF Redis is configured to save RDB snapshots");
    simulation.For(time, [server] { server->model().RefuseWrites(""); });
  } while (simulation.dice().Chance(0.5));
}

}  // namespace distlock::sim
