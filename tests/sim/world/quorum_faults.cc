// SPDX-License-Identifier: Apache-2.0
#include "world/quorum_faults.h"

#include "world/world.h"

namespace distlock::sim {
namespace {

// Mostly short, sometimes long enough for every lease to lapse.
Duration SomeTime(World& world) {
  return world.dice().Between(milliseconds(1), world.dice().Chance(0.7) ? seconds(2) : seconds(20));
}

}  // namespace

void RestartServer(World& world) {
  const Duration down = world.dice().Between(milliseconds(1), seconds(5));
  if (StoreProcess* server = world.Ail(FaultKind::kStoreRestarted, down + world.longest_ttl())) {
    server->Restart(down, server->AnyMemory());
  }
}

void PauseServer(World& world) {
  const Duration time = SomeTime(world);
  if (StoreProcess* server = world.Ail(FaultKind::kStorePaused, time)) server->Pause(time);
}

void CutOffServer(World& world) {
  const Duration time = SomeTime(world);
  StoreProcess* const server = world.Ail(FaultKind::kLinkSilent, time);
  if (server == nullptr) return;
  for (const WirePtr& wire : server->Wires()) wire->SilenceBoth(world.env().now() + time);
}

void HalfCutOffServer(World& world) {
  const Duration time = SomeTime(world);
  StoreProcess* const server = world.Ail(FaultKind::kLinkOneWay, time);
  if (server == nullptr) return;
  const Wire::Side side = world.dice().Chance(0.5) ? Wire::kClient : Wire::kServer;
  for (const WirePtr& wire : server->Wires()) {
    if (world.dice().Chance(0.6)) wire->Silence(side, world.env().now() + time);
  }
}

void SlowServer(World& world) {
  const Duration time = SomeTime(world);
  StoreProcess* const server = world.Ail(FaultKind::kLinkSlow, time + seconds(2));
  if (server == nullptr) return;
  const Duration by = world.dice().Between(milliseconds(20), milliseconds(1500));
  const std::vector<WirePtr> wires = server->Wires();
  for (const WirePtr& wire : wires) wire->Lag(Wire::kServer, by);
  world.For(time, [wires] {
    for (const WirePtr& wire : wires) wire->Lag(Wire::kServer, Duration(0));
  });
}

// One server's at a time: keys that end too early at two of them are two faults that nobody sees.
void SetServerClock(World& world) {
  if (world.env().now() < world.clocks_right_at) return;
  const Duration time = SomeTime(world);
  const Duration ttl = world.longest_ttl();
  // As of a restart: its keys may be gone, and no belief is excused by that.
  StoreProcess* const server = world.Ail(FaultKind::kStoreRestarted, time + ttl);
  if (server == nullptr) return;
  const Duration by =
      world.dice().Pick<Duration>({milliseconds(100), ttl / 2, ttl * 2, milliseconds(-100), -ttl, -hours(1)});
  world.clocks_right_at = world.env().now() + time + 2 * ttl + seconds(10);
  world.env().Log(
      [&] { return server->name() + "'s clock is set by " + std::to_string(by / milliseconds(1)) + " ms"; });
  server->StepClock(by);
  world.For(time, [server, by] { server->StepClock(-by); });
}

// Servers that are used alike run out of disk alike: the fault may reach several.
void RefuseAtServer(World& world) {
  do {
    const Duration time = SomeTime(world);
    StoreProcess* const server = world.Ail(FaultKind::kStoreRefuses, time);
    if (server == nullptr) return;
    server->model().RefuseWrites("MISCONF Redis is configured to save RDB snapshots");
    world.For(time, [server] { server->model().RefuseWrites(""); });
  } while (world.dice().Chance(0.5));
}

}  // namespace distlock::sim
