// SPDX-License-Identifier: Apache-2.0
#include "simulation/server_faults.h"

#include <algorithm>

#include "simulation/simulation.h"

namespace distlock::sim {
namespace {

// Mostly short, sometimes long enough for every lease to lapse.
Duration AwayTime(Simulation& simulation) {
  return simulation.dice().Between(milliseconds(1), simulation.dice().Chance(0.7) ? seconds(2) : seconds(20));
}

// Brokers that start know of longer leases by the store alone. Of several servers others have not forgotten.
bool MaySetLongestTtl(const Env& env) {
  if (env.now() < env.remembers_until) return false;
  return env.now() >= env.forgot_until || env.temper.topology == Topology::kQuorum;
}

// All that a store of one copy has, or one server of a quorum after the other.
void ForgetAll(Simulation& simulation) {
  if (!simulation.env().trouble || !AllKnowTheStore(simulation)) return;
  simulation.env().remembers_until = {};
  switch (simulation.env().temper.topology) {
    case Topology::kSingle:
      if (!simulation.env().temper.name_moves) simulation.RestartHeldOff(Memory::kNothing);
      break;
    case Topology::kSentinel:
      return simulation.replica_set().RestartPrimary(Memory::kNothing);
    case Topology::kCluster:
      return simulation.cluster_failover().RestartPrimary(Memory::kNothing);
    case Topology::kQuorum: {
      if (simulation.env().temper.minority) return;
      Duration after{};
      for (const auto& server : simulation.servers()) {
        simulation.env().time.After(after, [&simulation, server = server.get()] {
          if (!simulation.env().trouble || !server->alive()) return;
          const Duration down = simulation.dice().Between(milliseconds(1), seconds(1));
          simulation.env().NoteFault(FaultKind::kStoreRestarted, server->actor(),
                                     down + simulation.longest_ttl() + seconds(8));
          server->Restart(down, Memory::kNothing);
        });
        after += simulation.env().settings.longest_ttl + milliseconds(1500);
      }
      break;
    }
  }
}

}  // namespace

void RollOut(Simulation& simulation) {
  for (const auto& broker : simulation.brokers()) {
    if (!broker->alive()) continue;  // it starts with the new settings
    simulation.env().time.After(simulation.dice().Between(Duration(0), kRollOut), [&simulation, broker = broker.get()] {
      const Duration down = simulation.dice().Between(milliseconds(1), milliseconds(200));
      if (broker->alive()) simulation.env().NoteFault(FaultKind::kBrokerKilled, broker->actor(), down);
      broker->Restart(milliseconds(20), down);
    });
  }
}

bool AllKnowTheStore(Simulation& simulation) {
  return std::ranges::all_of(simulation.brokers(), [&](const auto& broker) {
    return broker->alive() && broker->started_at() + kConnects <= simulation.env().now();
  });
}

void RestartHeldOff(Simulation& simulation) { simulation.RestartHeldOff(simulation.primary().AnyMemory()); }

void LowerLongestTtl(Simulation& simulation) {
  Env& env = simulation.env();
  const Duration before = env.settings.longest_ttl;
  if (before <= seconds(1) || !MaySetLongestTtl(env)) return;
  const Duration next = simulation.dice().Pick<Duration>({seconds(1), seconds(1), seconds(2), seconds(5)});
  if (next >= before) return;
  env.Log([&] { return "the longest ttl is " + std::to_string(next / seconds(1)) + " s now"; });
  env.settings.longest_ttl = next;
  // A promise that nobody can know is none: a store and all brokers that forget at once.
  env.remembers_until = env.now() + before + kRollOut + kConnects;
  RollOut(simulation);
  if (simulation.dice().Chance(0.7)) {
    env.time.After(kRollOut + kConnects + simulation.dice().Between(Duration(0), seconds(2)),
                   [&simulation] { ForgetAll(simulation); });
  }
}

void RaiseLongestTtl(Simulation& simulation) {
  Env& env = simulation.env();
  if (env.settings.longest_ttl == simulation.longest_ttl() || !MaySetLongestTtl(env)) return;
  env.Log([&] { return "the longest ttl is " + std::to_string(simulation.longest_ttl() / seconds(1)) + " s again"; });
  env.settings.longest_ttl = simulation.longest_ttl();
  env.remembers_until = env.now() + kRollOut + kConnects;
  RollOut(simulation);
}

void HangSentinel(Simulation& simulation) {
  SentinelProcess& sentinel = simulation.replica_set().AnySentinel();
  const Duration time = AwayTime(simulation);
  simulation.env().NoteFault(FaultKind::kStorePaused, sentinel.actor(), time);
  sentinel.Pause(time);
}

void RestartSentinel(Simulation& simulation) {
  SentinelProcess& sentinel = simulation.replica_set().AnySentinel();
  if (!sentinel.alive()) return;
  const Duration down = AwayTime(simulation);
  simulation.env().NoteFault(FaultKind::kStoreRestarted, sentinel.actor(), down);
  sentinel.Restart(down);
}

void SlewClocks(Simulation& simulation) {
  const int most = simulation.env().temper.drift_ppm;
  const auto rate = [&] {
    return simulation.dice().Chance(0.5) ? simulation.dice().Pick<int>({-most, most})
                                         : simulation.dice().Roll(2 * most + 1) - most;
  };
  // Those of a Cluster's nodes are kept within some milliseconds of each other.
  const bool together = simulation.env().temper.topology == Topology::kCluster || simulation.dice().Chance(0.5);
  const int of_all = rate();
  for (StoreProcess* server : simulation.AllServers()) server->SlewWallClock(together ? of_all : rate());
  for (const auto& broker : simulation.brokers()) {
    if (simulation.dice().Chance(0.5)) broker->SlewClock(rate());
  }
}

}  // namespace distlock::sim
