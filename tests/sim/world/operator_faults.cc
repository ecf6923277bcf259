// SPDX-License-Identifier: Apache-2.0
#include "world/operator_faults.h"

#include "store/redis/keys.h"
#include "store/redis/wire_value.h"
#include "store/text.h"
#include "world/server_faults.h"
#include "world/world.h"

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

void LosePrimary(World& world) {
  const Env& env = world.env();
  if (!env.trouble) return;
  const int how = world.dice().Roll(6);
  if (env.temper.topology == Topology::kCluster) {
    using Cause = ClusterFailover::Cause;
    constexpr Cause kCauses[] = {Cause::kForced, Cause::kKilled, Cause::kPaused, Cause::kCutOff, Cause::kForcedApart};
    return how == 5 ? world.cluster_failover().RestartPrimary() : world.cluster_failover().LosePrimary(kCauses[how]);
  }
  if (!FailsOver(env)) return world.RestartHeldOff(world.primary().AnyMemory());
  using Cause = ReplicaSet::Cause;
  constexpr Cause kCauses[] = {Cause::kManual, Cause::kKilled, Cause::kPaused, Cause::kCutOff, Cause::kForcedApart};
  ReplicaSet& set = world.replica_set();
  return how == 5 ? set.RestartPrimary(set.primary().AnyMemory()) : set.LosePrimary(kCauses[how]);
}

Duration HoldOff(World& world) {
  if (world.env().temper.topology == Topology::kCluster) return world.cluster_failover().hold_off();
  if (FailsOver(world.env())) return world.replica_set().hold_off();
  return std::max(world.env().settings.fixed_hold_off, world.longest_ttl());
}

// At least as long as what the brokers would count, whatever the guard.
Duration AnyFixedHoldOff(World& world) {
  const Temper& temper = world.env().temper;
  const Duration old_primary = std::max<Duration>(seconds(12), temper.node_timeout * 3 / 2 + seconds(1));
  return world.longest_ttl() + (FailsOver(world.env()) ? old_primary : Duration(0)) +
         world.dice().Pick<Duration>({Duration(0), seconds(3), seconds(10)});
}

// What a broker writes to the server from now on stays in its connections, which it gives up then; it comes later.
void LeaveBehind(World& world, const StoreProcess& server, Duration given_up) {
  BrokerProcess& broker = world.AnyBroker();
  world.env().NoteFault(FaultKind::kLinkReset, broker.actor(), given_up);
  for (const WirePtr& wire : broker.Wires()) {
    if (&wire->end(Wire::kServer) != &server) continue;
    wire->Silence(Wire::kClient, world.env().now() + given_up);
    world.For(given_up, [wire] { wire->Break(milliseconds(20)); });
  }
}

// Null: there is none now.
StoreProcess* ServerToEmpty(World& world) {
  switch (world.env().temper.topology) {
    case Topology::kQuorum:
      return world.Ail(FaultKind::kStoreRestarted, world.longest_ttl());
    case Topology::kCluster:
      return &world.cluster_set().AnyNodeWithLock();
    default:
      return &world.primary();
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
void CopyWhenItBeats(World& world, StoreProcess& copied, StoreProcess& replaced, int tries) {
  if (!world.env().trouble || !copied.running() || !replaced.running() || tries == 0) return;
  if (!Beats(copied)) {
    return world.env().time.After(milliseconds(100), [&world, &copied, &replaced, tries] {
      CopyWhenItBeats(world, copied, replaced, tries - 1);
    });
  }
  const Duration down = world.dice().Between(milliseconds(1), milliseconds(1500));
  world.env().NoteFault(FaultKind::kStoreRestarted, replaced.actor(), down + world.longest_ttl() + seconds(8));
  replaced.Replace(down, copied);
}

}  // namespace

void EmptyStore(World& world) {
  world.env().NoteFault(FaultKind::kStoreEmptied, world.primary().actor(), Duration(0));
  world.observer().Forget();
  world.primary().model().Execute(0, {"FLUSHALL"});
  world.observer().Look(true);
}

void DeleteKey(World& world) {
  Env& env = world.env();
  const int32_t lock = world.dice().Roll(env.temper.locks);
  const std::string part = world.dice().Pick<std::string>({"h", "h", "t", "q", "w"});
  env.NoteFault(FaultKind::kKeyDeleted, world.primary().actor(), Duration(0), lock);
  world.observer().Forget(lock);
  const std::string key = StoreObserver::KeyOf(env.history.locks[static_cast<size_t>(lock)], part);
  world.primary().model().Execute(0, {"DEL", key});
  world.observer().Look(true);
}

void FlushScripts(World& world) {
  world.env().NoteFault(FaultKind::kScriptsFlushed, world.primary().actor(), Duration(0));
  world.primary().model().Execute(0, {"SCRIPT", "FLUSH"});
}

void ChangeGuard(World& world) {
  Env& env = world.env();
  // What a guard bounds is bounded while all brokers obey it: until then no primary may be replaced.
  if (env.now() < env.all_set_at || !world.HasOnePrimary() || !AllKnowTheStore(world)) return;
  const bool is_confirmed = env.settings.guard == FailoverGuard::kConfirmed;
  const bool sets_guard = FailsOver(env) && !env.temper.name_moves && world.dice().Chance(0.7);
  const Duration before = HoldOff(world);
  if (sets_guard) env.settings.guard = is_confirmed ? FailoverGuard::kNone : FailoverGuard::kConfirmed;
  if (!sets_guard || world.dice().Chance(0.3)) {
    Duration& fixed = env.settings.fixed_hold_off;
    fixed = fixed > Duration(0) ? Duration(0) : AnyFixedHoldOff(world);
  }
  env.Log([&] {
    return "guard " + std::to_string(static_cast<int>(env.settings.guard)) + ", hold-off " +
           std::to_string(env.settings.fixed_hold_off / milliseconds(1)) + " ms from now on";
  });
  env.all_set_at = env.now() + kRollOut + kConnects;
  for (const StoreProcess* server : world.AllServers()) {
    env.NoteFault(FaultKind::kPromoted, server->actor(), kRollOut + std::max(before, HoldOff(world)) + seconds(5));
  }
  RollOut(world);
  if (!world.dice().Chance(0.8)) return;
  const Duration soon = world.dice().Between(Duration(0), world.dice().Chance(0.5) ? seconds(1) : seconds(8));
  env.time.After(kRollOut + kConnects + soon, [&world] { LosePrimary(world); });
}

void DeleteAllData(World& world) {
  Env& env = world.env();
  if (!AllKnowTheStore(world)) return;
  StoreProcess* const server = ServerToEmpty(world);
  if (server == nullptr || !server->running()) return;
  const bool is_late = env.temper.late_bytes > 0;
  const Duration given_up = is_late ? world.dice().Between(milliseconds(200), seconds(2)) : Duration(0);
  if (is_late) LeaveBehind(world, *server, given_up);
  env.time.After(world.dice().Between(Duration(0), given_up), [&env, server, is_late, held_off = HoldOff(world)] {
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

void StartAnew(World& world) {
  constexpr Duration kAllDown = milliseconds(300);
  Env& env = world.env();
  StoreProcess& server = world.primary();
  if (!world.HasOnePrimary() || !AllKnowTheStore(world) || !server.running()) return;
  const Duration down = kAllDown + world.dice().Between(milliseconds(700), milliseconds(1500));
  for (const auto& broker : world.brokers()) {
    env.NoteFault(FaultKind::kBrokerKilled, broker->actor(), down);
    broker->Restart(milliseconds(20), down);
  }
  env.NoteFault(FaultKind::kPromoted, server.actor(), down + HoldOff(world) + seconds(5));
  const bool restarts = world.dice().Chance(0.5);
  env.time.After(kAllDown, [&env, &server, restarts] {
    if (!server.running()) return;
    env.Log([&] { return server.name() + (restarts ? " restarts empty" : " is emptied") + ", and nobody is there"; });
    if (restarts) return server.Restart(milliseconds(50), Memory::kNothing);
    server.Sync();
    server.model().Execute(0, {"FLUSHALL"});
  });
}

void AppendEachSecond(World& world) {
  Env& env = world.env();
  StoreProcess& server = world.primary();
  if (!AllKnowTheStore(world) || !server.running() || server.appends_each_second()) return;
  server.AppendEachSecond();
  const Duration later = kSettingsAreFound + world.dice().Between(Duration(0), seconds(2));
  env.time.After(later, [&world, &env, &server] {
    if (!env.trouble || !server.running() || !server.appends_each_second()) return;
    const Duration down = world.dice().Between(milliseconds(1), seconds(1));
    if (env.temper.topology != Topology::kQuorum) return world.RestartHeldOff(Memory::kNotItsLastSecond, down);
    env.NoteFault(FaultKind::kStoreRestarted, server.actor(), down + world.longest_ttl() + seconds(8));
    server.Restart(down, Memory::kNotItsLastSecond);
  });
}

void ReplaceByCopy(World& world) {
  Env& env = world.env();
  const auto& servers = world.servers();
  const auto first = static_cast<size_t>(world.dice().Roll(static_cast<int>(servers.size())));
  StoreProcess& copied = *servers[first];
  StoreProcess& replaced = *servers[(first + 1) % servers.size()];
  if (!copied.running() || !replaced.running()) return;
  const Duration misses = world.dice().Between(seconds(3), seconds(5));
  env.NoteFault(FaultKind::kStorePaused, copied.actor(), misses + seconds(8));
  copied.Pause(misses);
  env.time.After(misses + milliseconds(100),
                 [&world, &copied, &replaced] { CopyWhenItBeats(world, copied, replaced, 60); });
}

}  // namespace distlock::sim
