// SPDX-License-Identifier: Apache-2.0
#include "simulation/operator_faults.h"

#include "simulation/server_faults.h"
#include "simulation/simulation.h"
#include "store/redis/keys.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::sim {
namespace {

// Until each broker has found that all data are gone, by a census each second, and its clients have heard what it
// granted before.
constexpr Duration kDeletionIsFound = milliseconds(1500);
// The same, where commands of before still arrive over a connection that was given up: what their broker knew counts
// for 2 s, by the server's clock, and so none that is granted something runs later, however late it arrives.
constexpr Duration kDeletionIsFoundLate = milliseconds(3500);
// Until no heartbeat that a restart finds says of the settings of before that they keep each write: a call may say so
// for 2 s more, the heartbeat counts for 3 s, and a server knows when its process began to the second.
constexpr Duration kSettingsAreFound = seconds(6);
constexpr int64_t kBeats = 1'000'000;  // us: a heartbeat that is younger goes on

bool FailsOver(const Env& env) {
  return env.temper.topology == Topology::kSentinel || env.temper.failing_nodes || env.temper.name_moves;
}

void LosePrimary(Simulation& simulation) {
  const Env& env = simulation.env();
  if (!env.trouble) return;
  const int how = simulation.dice().Roll(6);
  if (env.temper.topology == Topology::kCluster) {
    using Cause = ClusterFailover::Cause;
    constexpr Cause kCauses[] = {Cause::kForced, Cause::kKilled, Cause::kPaused, Cause::kCutOff, Cause::kForcedApart};
    return how == 5 ? simulation.cluster_failover().RestartPrimary()
                    : simulation.cluster_failover().LosePrimary(kCauses[how]);
  }
  if (!FailsOver(env)) return simulation.RestartHeldOff(simulation.primary().AnyMemory());
  using Cause = ReplicaSet::Cause;
  constexpr Cause kCauses[] = {Cause::kManual, Cause::kKilled, Cause::kPaused, Cause::kCutOff, Cause::kForcedApart};
  ReplicaSet& set = simulation.replica_set();
  return how == 5 ? set.RestartPrimary(set.primary().AnyMemory()) : set.LosePrimary(kCauses[how]);
}

Duration HoldOff(Simulation& simulation) {
  if (simulation.env().temper.topology == Topology::kCluster) return simulation.cluster_failover().hold_off();
  if (FailsOver(simulation.env())) return simulation.replica_set().hold_off();
  return std::max(simulation.env().settings.fixed_hold_off, simulation.longest_ttl());
}

// At least as long as what the brokers would count, whatever the guard.
Duration AnyFixedHoldOff(Simulation& simulation) {
  const Temper& temper = simulation.env().temper;
  const Duration old_primary = std::max<Duration>(seconds(12), temper.node_timeout * 3 / 2 + seconds(1));
  return simulation.longest_ttl() + (FailsOver(simulation.env()) ? old_primary : Duration(0)) +
         simulation.dice().Pick<Duration>({Duration(0), seconds(3), seconds(10)});
}

// A broker's writes to the server from now on stay in its connections, which it gives up then; they come later.
void LeaveBehind(Simulation& simulation, const StoreProcess& server, Duration given_up) {
  BrokerProcess& broker = simulation.AnyBroker();
  simulation.env().NoteFault(FaultKind::kLinkReset, broker.actor(), given_up);
  for (const WirePtr& wire : broker.Wires()) {
    if (&wire->end(Wire::kServer) != &server) continue;
    wire->Silence(Wire::kClient, simulation.env().now() + given_up);
    simulation.For(given_up, [wire] { wire->Break(milliseconds(20)); });
  }
}

// Null: there is none now.
StoreProcess* ServerToEmpty(Simulation& simulation) {
  switch (simulation.env().temper.topology) {
    case Topology::kQuorum:
      return simulation.Ail(FaultKind::kStoreRestarted, simulation.longest_ttl());
    case Topology::kCluster:
      return &simulation.cluster_set().AnyNodeWithLock();
    default:
      return &simulation.primary();
  }
}

// Brokers have met it, and keep its heartbeat.
bool Beats(StoreProcess& server) {
  server.Sync();
  const std::string beat(server.model().String(store::Keys("dl").Heartbeat()).value_or(""));
  const std::vector<std::string_view> parts = store::Split(beat, ";");
  if (parts.size() < 2) return false;
  return server.model().now_us() - static_cast<int64_t>(store::ParseNumber(parts[1]).value_or(0)) < kBeats;
}

// Once its heartbeat shows that the data are complete.
void CopyWhenItBeats(Simulation& simulation, StoreProcess& copied, StoreProcess& replaced, int tries) {
  if (!simulation.env().trouble || !copied.running() || !replaced.running() || tries == 0) return;
  if (!Beats(copied)) {
    return simulation.env().time.After(milliseconds(100), [&simulation, &copied, &replaced, tries] {
      CopyWhenItBeats(simulation, copied, replaced, tries - 1);
    });
  }
  const Duration down = simulation.dice().Between(milliseconds(1), milliseconds(1500));
  simulation.env().NoteFault(FaultKind::kStoreRestarted, replaced.actor(),
                             down + simulation.longest_ttl() + seconds(8));
  replaced.Replace(down, copied);
}

}  // namespace

void EmptyStore(Simulation& simulation) {
  simulation.env().NoteFault(FaultKind::kStoreEmptied, simulation.primary().actor(), Duration(0));
  simulation.observer().Forget();
  simulation.primary().model().Execute(0, {"FLUSHALL"});
  simulation.observer().Look(true);
}

void DeleteKey(Simulation& simulation) {
  Env& env = simulation.env();
  const int32_t lock = simulation.dice().Roll(env.temper.locks);
  const std::string part = simulation.dice().Pick<std::string>({"h", "h", "t", "q", "w"});
  env.NoteFault(FaultKind::kKeyDeleted, simulation.primary().actor(), Duration(0), lock);
  simulation.observer().Forget(lock);
  const std::string key = StoreObserver::KeyOf(env.history.locks[static_cast<size_t>(lock)], part);
  simulation.primary().model().Execute(0, {"DEL", key});
  simulation.observer().Look(true);
}

void FlushScripts(Simulation& simulation) {
  simulation.env().NoteFault(FaultKind::kScriptsFlushed, simulation.primary().actor(), Duration(0));
  simulation.primary().model().Execute(0, {"SCRIPT", "FLUSH"});
}

void ChangeGuard(Simulation& simulation) {
  Env& env = simulation.env();
  // A guard's bound counts while all brokers obey it: until then no primary may be replaced.
  if (env.now() < env.all_set_at || !simulation.HasOnePrimary() || !AllKnowTheStore(simulation)) return;
  const bool is_confirmed = env.settings.guard == FailoverGuard::kConfirmed;
  const bool sets_guard = FailsOver(env) && !env.temper.name_moves && simulation.dice().Chance(0.7);
  const Duration before = HoldOff(simulation);
  if (sets_guard) env.settings.guard = is_confirmed ? FailoverGuard::kNone : FailoverGuard::kConfirmed;
  if (!sets_guard || simulation.dice().Chance(0.3)) {
    Duration& fixed = env.settings.fixed_hold_off;
    fixed = fixed > Duration(0) ? Duration(0) : AnyFixedHoldOff(simulation);
  }
  env.Log([&] {
    return "guard " + std::to_string(static_cast<int>(env.settings.guard)) + ", hold-off " +
           std::to_string(env.settings.fixed_hold_off / milliseconds(1)) + " ms from now on";
  });
  env.all_set_at = env.now() + kRollOut + kConnects;
  for (const StoreProcess* server : simulation.AllServers()) {
    env.NoteFault(FaultKind::kPromoted, server->actor(), kRollOut + std::max(before, HoldOff(simulation)) + seconds(5));
  }
  RollOut(simulation);
  if (!simulation.dice().Chance(0.8)) return;
  const Duration soon = simulation.dice().Between(Duration(0), simulation.dice().Chance(0.5) ? seconds(1) : seconds(8));
  env.time.After(kRollOut + kConnects + soon, [&simulation] { LosePrimary(simulation); });
}

void DeleteAllData(Simulation& simulation) {
  Env& env = simulation.env();
  if (!AllKnowTheStore(simulation)) return;
  StoreProcess* const server = ServerToEmpty(simulation);
  if (server == nullptr || !server->running()) return;
  const bool is_late = env.temper.late_bytes > 0;
  const Duration given_up = is_late ? simulation.dice().Between(milliseconds(200), seconds(2)) : Duration(0);
  if (is_late) LeaveBehind(simulation, *server, given_up);
  env.time.After(
      simulation.dice().Between(Duration(0), given_up), [&env, server, is_late, held_off = HoldOff(simulation)] {
        if (!server->running()) return;
        const Duration found = is_late ? kDeletionIsFoundLate : kDeletionIsFound;
        if (env.temper.topology != Topology::kQuorum) {
          env.NoteFault(FaultKind::kPromoted, server->actor(), held_off + seconds(5));
        }
        env.Note({.kind = RecordKind::kForgot, .actor = server->actor(), .until_ns = Env::Ns(env.now() + found)});
        env.Log([&] { return "all data of " + server->name() + " are deleted"; });
        server->Sync();
        server->model().Execute(0, {"FLUSHALL"});
      });
}

void StartAnew(Simulation& simulation) {
  constexpr Duration kAllDown = milliseconds(300);
  Env& env = simulation.env();
  StoreProcess& server = simulation.primary();
  if (!simulation.HasOnePrimary() || !AllKnowTheStore(simulation) || !server.running()) return;
  const Duration down = kAllDown + simulation.dice().Between(milliseconds(700), milliseconds(1500));
  for (const auto& broker : simulation.brokers()) {
    env.NoteFault(FaultKind::kBrokerKilled, broker->actor(), down);
    broker->Restart(milliseconds(20), down);
  }
  env.NoteFault(FaultKind::kPromoted, server.actor(), down + HoldOff(simulation) + seconds(5));
  const bool restarts = simulation.dice().Chance(0.5);
  env.time.After(kAllDown, [&env, &server, restarts] {
    if (!server.running()) return;
    env.Log([&] { return server.name() + (restarts ? " restarts empty" : " is emptied") + ", and nobody is there"; });
    if (restarts) return server.Restart(milliseconds(50), Memory::kNothing);
    server.Sync();
    server.model().Execute(0, {"FLUSHALL"});
  });
}

void AppendEachSecond(Simulation& simulation) {
  Env& env = simulation.env();
  StoreProcess& server = simulation.primary();
  if (!AllKnowTheStore(simulation) || !server.running() || server.appends_each_second()) return;
  server.AppendEachSecond();
  const Duration later = kSettingsAreFound + simulation.dice().Between(Duration(0), seconds(2));
  env.time.After(later, [&simulation, &env, &server] {
    if (!env.trouble || !server.running() || !server.appends_each_second()) return;
    const Duration down = simulation.dice().Between(milliseconds(1), seconds(1));
    if (env.temper.topology != Topology::kQuorum) return simulation.RestartHeldOff(Memory::kNotItsLastSecond, down);
    env.NoteFault(FaultKind::kStoreRestarted, server.actor(), down + simulation.longest_ttl() + seconds(8));
    server.Restart(down, Memory::kNotItsLastSecond);
  });
}

void ReplaceByCopy(Simulation& simulation) {
  Env& env = simulation.env();
  const auto& servers = simulation.servers();
  const auto first = static_cast<size_t>(simulation.dice().Roll(static_cast<int>(servers.size())));
  StoreProcess& copied = *servers[first];
  StoreProcess& replaced = *servers[(first + 1) % servers.size()];
  if (!copied.running() || !replaced.running()) return;
  const Duration misses = simulation.dice().Between(seconds(3), seconds(5));
  env.NoteFault(FaultKind::kStorePaused, copied.actor(), misses + seconds(8));
  copied.Pause(misses);
  env.time.After(misses + milliseconds(100),
                 [&simulation, &copied, &replaced] { CopyWhenItBeats(simulation, copied, replaced, 60); });
}

}  // namespace distlock::sim
