// SPDX-License-Identifier: Apache-2.0
#include "world/server_faults.h"

#include <algorithm>

#include "world/world.h"

namespace distlock::sim {
namespace {

// Mostly short, sometimes long enough for every lease to lapse.
Duration AwayTime(World& world) {
  return world.dice().Between(milliseconds(1), world.dice().Chance(0.7) ? seconds(2) : seconds(20));
}

// Brokers that start know of longer leases by the store alone. Of several servers others have not forgotten.
bool MaySetLongestTtl(const Env& env) {
  if (env.now() < env.remembers_until) return false;
  return env.now() >= env.forgot_until || env.temper.topology == Topology::kQuorum;
}

// All that a store of one copy has, or one server of a quorum after the other.
void ForgetAll(World& world) {
  if (!world.env().trouble || !AllKnowTheStore(world)) return;
  world.env().remembers_until = {};
  switch (world.env().temper.topology) {
    case Topology::kSingle:
      if (!world.env().temper.name_moves) world.RestartHeldOff(Memory::kNothing);
      break;
    case Topology::kSentinel:
      return world.replica_set().RestartPrimary(Memory::kNothing);
    case Topology::kCluster:
      return world.cluster_failover().RestartPrimary(Memory::kNothing);
    case Topology::kQuorum: {
      if (world.env().temper.minority) return;
      Duration after{};
      for (const auto& server : world.servers()) {
        world.env().time.After(after, [&world, server = server.get()] {
          if (!world.env().trouble || !server->alive()) return;
          const Duration down = world.dice().Between(milliseconds(1), seconds(1));
          world.env().NoteFault(FaultKind::kStoreRestarted, server->actor(), down + world.longest_ttl() + seconds(8));
          server->Restart(down, Memory::kNothing);
        });
        after += world.env().settings.longest_ttl + milliseconds(1500);
      }
      break;
    }
  }
}

}  // namespace

void RollOut(World& world) {
  for (const auto& broker : world.brokers()) {
    if (!broker->alive()) continue;  // it starts with the new settings
    world.env().time.After(world.dice().Between(Duration(0), kRollOut), [&world, broker = broker.get()] {
      const Duration down = world.dice().Between(milliseconds(1), milliseconds(200));
      if (broker->alive()) world.env().NoteFault(FaultKind::kBrokerKilled, broker->actor(), down);
      broker->Restart(milliseconds(20), down);
    });
  }
}

bool AllKnowTheStore(World& world) {
  return std::ranges::all_of(world.brokers(), [&](const auto& broker) {
    return broker->alive() && broker->started_at() + kConnects <= world.env().now();
  });
}

void RestartHeldOff(World& world) { world.RestartHeldOff(world.primary().AnyMemory()); }

void LowerLongestTtl(World& world) {
  Env& env = world.env();
  const Duration before = env.settings.longest_ttl;
  if (before <= seconds(1) || !MaySetLongestTtl(env)) return;
  const Duration next = world.dice().Pick<Duration>({seconds(1), seconds(1), seconds(2), seconds(5)});
  if (next >= before) return;
  env.Log([&] { return "the longest ttl is " + std::to_string(next / seconds(1)) + " s now"; });
  env.settings.longest_ttl = next;
  // What nobody could know any more is no promise: a store and all brokers that forget at once.
  env.remembers_until = env.now() + before + kRollOut + kConnects;
  RollOut(world);
  if (world.dice().Chance(0.7)) {
    env.time.After(kRollOut + kConnects + world.dice().Between(Duration(0), seconds(2)),
                   [&world] { ForgetAll(world); });
  }
}

void RaiseLongestTtl(World& world) {
  Env& env = world.env();
  if (env.settings.longest_ttl == world.longest_ttl() || !MaySetLongestTtl(env)) return;
  env.Log([&] { return "the longest ttl is " + std::to_string(world.longest_ttl() / seconds(1)) + " s again"; });
  env.settings.longest_ttl = world.longest_ttl();
  env.remembers_until = env.now() + kRollOut + kConnects;
  RollOut(world);
}

void HangSentinel(World& world) {
  SentinelProcess& sentinel = world.replica_set().AnySentinel();
  const Duration time = AwayTime(world);
  world.env().NoteFault(FaultKind::kStorePaused, sentinel.actor(), time);
  sentinel.Pause(time);
}

void RestartSentinel(World& world) {
  SentinelProcess& sentinel = world.replica_set().AnySentinel();
  if (!sentinel.alive()) return;
  const Duration down = AwayTime(world);
  world.env().NoteFault(FaultKind::kStoreRestarted, sentinel.actor(), down);
  sentinel.Restart(down);
}

void SlewClocks(World& world) {
  const int most = world.env().temper.drift_ppm;
  const auto rate = [&] {
    return world.dice().Chance(0.5) ? world.dice().Pick<int>({-most, most}) : world.dice().Roll(2 * most + 1) - most;
  };
  // Those of a Cluster's nodes are kept within some milliseconds of each other.
  const bool together = world.env().temper.topology == Topology::kCluster || world.dice().Chance(0.5);
  const int of_all = rate();
  for (StoreProcess* server : world.AllServers()) server->SlewWallClock(together ? of_all : rate());
  for (const auto& broker : world.brokers()) {
    if (world.dice().Chance(0.5)) broker->SlewClock(rate());
  }
}

}  // namespace distlock::sim
