// SPDX-License-Identifier: Apache-2.0
#include "simulation/faults.h"

#include "simulation/failover_faults.h"
#include "simulation/network_faults.h"
#include "simulation/operator_faults.h"
#include "simulation/quorum_faults.h"
#include "simulation/server_faults.h"
#include "simulation/simulation.h"

namespace distlock::sim {
namespace {

// A duration: mostly short, sometimes long enough for every lease to lapse.
Duration Some(Simulation& simulation) {
  return simulation.dice().Between(milliseconds(1), simulation.dice().Chance(0.7) ? seconds(2) : seconds(20));
}

// The longest time until a peer notices that a process is gone.
Duration HeardWithin(Simulation& simulation) { return simulation.dice().Chance(0.5) ? milliseconds(20) : seconds(6); }

void KillClient(Simulation& simulation) {
  simulation.AnyClient().Kill(HeardWithin(simulation), simulation.dice().Between(milliseconds(1), seconds(4)));
}

void PauseClient(Simulation& simulation) {
  ClientProcess& client = simulation.AnyClient();
  const Duration time = Some(simulation);
  simulation.env().NoteFault(FaultKind::kClientPaused, client.actor(), time);
  client.Pause(time);
}

void KillBroker(Simulation& simulation) {
  BrokerProcess& broker = simulation.AnyBroker();
  if (!broker.alive()) return;
  const Duration down = simulation.dice().Between(milliseconds(1), seconds(4));
  simulation.env().NoteFault(FaultKind::kBrokerKilled, broker.actor(), down);
  broker.Restart(HeardWithin(simulation), down);
}

void PauseBroker(Simulation& simulation) {
  BrokerProcess& broker = simulation.AnyBroker();
  const Duration longest = simulation.env().temper.longest_pause_of_brokers;
  const bool long_one = longest > Duration(0) && simulation.dice().Chance(0.2);
  const Duration time = long_one ? simulation.dice().Between(seconds(20), longest) : Some(simulation);
  simulation.env().NoteFault(FaultKind::kBrokerPaused, broker.actor(), time);
  broker.Pause(time);
}

void DrainBroker(Simulation& simulation) {
  BrokerProcess& broker = simulation.AnyBroker();
  const Duration timeout = simulation.dice().Between(Duration(0), seconds(4));
  simulation.env().NoteFault(FaultKind::kBrokerDrained, broker.actor(), timeout + seconds(5));
  broker.Drain(timeout);
}

void PauseStore(Simulation& simulation) {
  const Duration time = Some(simulation);
  simulation.env().NoteFault(FaultKind::kStorePaused, simulation.primary().actor(), time);
  simulation.primary().Pause(time);
}

void RestartStore(Simulation& simulation) {
  const Duration down = simulation.dice().Between(milliseconds(1), seconds(5));
  simulation.env().NoteFault(FaultKind::kStoreRestarted, simulation.primary().actor(), down);
  simulation.primary().Restart(down, Memory::kAll);
}

void LoseStore(Simulation& simulation) {
  const Duration down = simulation.dice().Between(milliseconds(1), seconds(5));
  simulation.env().NoteFault(FaultKind::kStoreEmptied, simulation.primary().actor(), down);
  simulation.observer().Forget();
  simulation.primary().Restart(down, Memory::kNothing);
  simulation.observer().Look(true);
}

void StepStoreClock(Simulation& simulation, Duration by) {
  simulation.env().NoteFault(FaultKind::kStoreClock, simulation.primary().actor(), by);
  simulation.observer().Forget();
  simulation.primary().StepClock(by);
}

void ClockForward(Simulation& simulation) { StepStoreClock(simulation, Some(simulation)); }
// Each step back prolongs locks beyond the belief in them, so the total is limited.
void ClockBack(Simulation& simulation) {
  const Duration by = simulation.dice().Between(milliseconds(1), seconds(3));
  simulation.clock_set_back += by;
  if (simulation.clock_set_back < seconds(6)) StepStoreClock(simulation, -by);
}

void FillStore(Simulation& simulation) {
  const Duration time = Some(simulation);
  StoreProcess& store = simulation.primary();
  simulation.env().NoteFault(FaultKind::kStoreFull, store.actor(), time);
  store.model().SetMaxMemory(1);
  simulation.For(time, [&store] { store.model().SetMaxMemory(0); });
}

void RefuseWrites(Simulation& simulation) {
  const Duration time = Some(simulation);
  StoreProcess& store = simulation.primary();
  simulation.env().NoteFault(FaultKind::kStoreRefuses, store.actor(), time);
  store.model().RefuseWrites(simulation.dice().Chance(0.5) ? "NOREPLICAS Not enough good replicas to write."
                                                           : "MISCONF Redis is configured to save RDB snapshots");
  simulation.For(time, [&store] { store.model().RefuseWrites(""); });
}

void RefuseAll(Simulation& simulation) {
  const Duration time = Some(simulation);
  StoreProcess& store = simulation.primary();
  simulation.env().NoteFault(FaultKind::kStoreRefuses, store.actor(), time);
  store.model().RefuseAll(simulation.dice().Chance(0.5)
                              ? "LOADING Redis is loading the dataset in memory"
                              : "BUSY Redis is busy running a script. You can only call SCRIPT KILL "
                                "or SHUTDOWN NOSAVE.");
  simulation.For(time, [&store] { store.model().RefuseAll(""); });
}

void FailOver(Simulation& simulation) { simulation.FailOver(); }

void ResetLink(Simulation& simulation) {
  const WirePtr wire = simulation.AnyWire();
  if (wire == nullptr) return;
  const Duration within = HeardWithin(simulation);
  simulation.env().NoteFault(FaultKind::kLinkReset, wire->end(Wire::kClient).actor(), within);
  wire->Break(within);
}

// Commands are stuck in a socket; their broker finds the connection dead and uses a new one; then the commands run.
void ClogStoreLink(Simulation& simulation) {
  BrokerProcess& broker = simulation.AnyBroker();
  const WirePtr wire = broker.alive() ? broker.dialer().command_wire() : nullptr;
  if (wire == nullptr) return;
  // Either longer or shorter than the time in which the last attempt may take effect.
  const Duration longest = simulation.dice().Chance(0.5) ? milliseconds(2500) : seconds(10);
  const Duration time = simulation.dice().Between(milliseconds(100), longest);
  simulation.env().NoteFault(FaultKind::kLinkReset, broker.actor(), time);
  wire->Silence(Wire::kClient, simulation.env().now() + time);
  simulation.For(simulation.dice().Between(Duration(0), seconds(1)), [wire] { wire->Break(milliseconds(20)); });
}

void Silence(Simulation& simulation, bool both) {
  const WirePtr wire = simulation.AnyWire();
  if (wire == nullptr) return;
  const Duration time = Some(simulation);
  const Instant until = simulation.env().now() + time;
  const bool first = simulation.dice().Chance(0.5);
  simulation.env().NoteFault(both ? FaultKind::kLinkSilent : FaultKind::kLinkOneWay, wire->end(Wire::kClient).actor(),
                             time);
  if (both || first) wire->Silence(Wire::kClient, until);
  if (both || !first) wire->Silence(Wire::kServer, until);
  // The connection may also break before it is heard again.
  if (!simulation.dice().Chance(0.4)) return;
  simulation.For(simulation.dice().Between(Duration(0), time), [wire] { wire->Break(seconds(6)); });
}

void SilenceLink(Simulation& simulation) { Silence(simulation, true); }
void OneWayLink(Simulation& simulation) { Silence(simulation, false); }

// The broker's answers come late, and nothing comes after them: a client that counts its belief from when an answer
// came believes for longer than the broker promised.
void DelayLastAnswers(Simulation& simulation) {
  const WirePtr wire = simulation.AnyWire();
  if (wire == nullptr) return;
  const Duration late = simulation.dice().Between(milliseconds(50), simulation.env().temper.validity);
  const Instant until = simulation.env().now() + late + seconds(6);
  simulation.env().NoteFault(FaultKind::kLinkSilent, wire->end(Wire::kClient).actor(), late + seconds(6));
  wire->Silence(Wire::kServer, simulation.env().now() + late);
  simulation.For(simulation.dice().Between(Duration(0), late), [wire, until] { wire->Silence(Wire::kClient, until); });
  simulation.For(late + milliseconds(10), [wire, until] { wire->Silence(Wire::kServer, until); });
}

void LoseChannel(Simulation& simulation) {
  BrokerProcess& broker = simulation.AnyBroker();
  const WirePtr wire = broker.alive() ? broker.dialer().channel_wire() : nullptr;
  if (wire == nullptr) return;
  const Duration within = HeardWithin(simulation);
  simulation.env().NoteFault(FaultKind::kChannelLost, broker.actor(), within);
  wire->Break(within);
}

void LoseNotices(Simulation& simulation) {
  const Duration time = Some(simulation);
  StoreProcess& store = simulation.primary();
  simulation.env().NoteFault(FaultKind::kNoticesLost, store.actor(), time);
  store.LoseNotices(0.3);
  simulation.For(time, [&store] { store.LoseNotices(0); });
}

}  // namespace

const std::vector<Fault>& Faults() {
  static const std::vector<Fault> kAll = {
      {.kind = FaultKind::kClientKilled, .name = "a client is killed", .mild = true, .cause = KillClient},
      {.kind = FaultKind::kClientPaused, .name = "a client stands still", .cause = PauseClient},
      {.kind = FaultKind::kBrokerKilled, .name = "a broker is killed", .cause = KillBroker},
      {.kind = FaultKind::kBrokerPaused, .name = "a broker stands still", .cause = PauseBroker},
      {.kind = FaultKind::kBrokerDrained, .name = "a broker drains", .cause = DrainBroker},
      {.kind = FaultKind::kStorePaused, .name = "the store stands still", .cause = PauseStore},
      {.kind = FaultKind::kStoreRestarted,
       .name = "the store restarts",
       .where = Where::kSingle,
       .cause = RestartStore},
      {.kind = FaultKind::kStoreEmptied,
       .name = "the store is emptied",
       .forgets = true,
       .where = Where::kSingle,
       .cause = EmptyStore},
      {.kind = FaultKind::kStoreEmptied,
       .name = "the store restarts empty",
       .forgets = true,
       .where = Where::kSingle,
       .cause = LoseStore},
      {.kind = FaultKind::kKeyDeleted,
       .name = "somebody deletes a key",
       .forgets = true,
       .where = Where::kSingle,
       .cause = DeleteKey},
      {.kind = FaultKind::kStoreClock,
       .name = "the store's clock jumps",
       .where = Where::kSingle,
       .cause = ClockForward},
      {.kind = FaultKind::kStoreClock,
       .name = "the store's clock goes back",
       .clock_goes_back = true,
       .where = Where::kSingle,
       .cause = ClockBack},
      {.kind = FaultKind::kStoreFull, .name = "the store is full", .cause = FillStore},
      {.kind = FaultKind::kStoreRefuses,
       .name = "the store refuses writes",
       .where = Where::kSingle,
       .cause = RefuseWrites},
      {.kind = FaultKind::kStoreRefuses, .name = "the store refuses all", .cause = RefuseAll},
      {.kind = FaultKind::kFailover,
       .name = "a replica takes over",
       .forgets = true,
       .where = Where::kSingle,
       .cause = FailOver},
      {.kind = FaultKind::kScriptsFlushed, .name = "the scripts are flushed", .mild = true, .cause = FlushScripts},
      {.kind = FaultKind::kLinkReset, .name = "a connection is reset", .mild = true, .cause = ResetLink},
      {.kind = FaultKind::kLinkReset,
       .name = "commands stick in a connection",
       .mild = true,
       .late = true,
       .cause = ClogStoreLink},
      {.kind = FaultKind::kLinkSilent, .name = "a connection falls silent", .cause = SilenceLink},
      {.kind = FaultKind::kLinkOneWay, .name = "a connection falls silent one way", .cause = OneWayLink},
      {.kind = FaultKind::kLinkSilent, .name = "a connection's last answers are late", .cause = DelayLastAnswers},
      {.kind = FaultKind::kChannelLost, .name = "a hand-off channel is lost", .mild = true, .cause = LoseChannel},
      {.kind = FaultKind::kNoticesLost, .name = "notices are lost", .mild = true, .cause = LoseNotices},
      {.kind = FaultKind::kPromoted,
       .name = "a failover is asked for",
       .where = Where::kSentinel,
       .cause = AskFailover},
      {.kind = FaultKind::kPromoted, .name = "the primary is killed", .where = Where::kSentinel, .cause = KillPrimary},
      {.kind = FaultKind::kPromoted, .name = "the primary hangs", .where = Where::kSentinel, .cause = HangPrimary},
      {.kind = FaultKind::kPromoted,
       .name = "the primary is cut off",
       .splits = true,
       .where = Where::kSentinel,
       .cause = CutOffPrimary},
      {.kind = FaultKind::kPromoted,
       .name = "the primary restarts",
       .where = Where::kSentinel,
       .cause = RestartPrimary},
      {.kind = FaultKind::kStorePaused, .name = "a sentinel hangs", .where = Where::kSentinel, .cause = HangSentinel},
      {.kind = FaultKind::kStoreRestarted,
       .name = "a sentinel restarts",
       .where = Where::kSentinel,
       .cause = RestartSentinel},
      {.kind = FaultKind::kStoreRefuses, .name = "a slot is resharded", .where = Where::kCluster, .cause = Reshard},
      {.kind = FaultKind::kStoreRefuses, .name = "a slot moves at once", .where = Where::kCluster, .cause = MoveAtOnce},
      {.kind = FaultKind::kStoreRefuses, .name = "slots go to and fro", .where = Where::kCluster, .cause = StormSlots},
      {.kind = FaultKind::kStoreRefuses, .name = "a slot is nobody's", .where = Where::kCluster, .cause = UncoverSlot},
      {.kind = FaultKind::kStoreRefuses,
       .name = "a node knows only itself",
       .harmless = true,
       .where = Where::kCluster,
       .cause = IsolateNode},
      {.kind = FaultKind::kStoreRestarted,
       .name = "a node restarts",
       .where = Where::kSteadyCluster,
       .cause = RestartNode},
      {.kind = FaultKind::kPromoted,
       .name = "a replica is told to take over",
       .where = Where::kFailingCluster,
       .cause = ForceTakeover},
      {.kind = FaultKind::kPromoted, .name = "a node is killed", .where = Where::kFailingCluster, .cause = KillNode},
      {.kind = FaultKind::kPromoted, .name = "a node hangs", .where = Where::kFailingCluster, .cause = HangNode},
      {.kind = FaultKind::kPromoted,
       .name = "a node is cut off",
       .splits = true,
       .where = Where::kFailingCluster,
       .cause = CutOffNode},
      {.kind = FaultKind::kPromoted,
       .name = "a primary restarts",
       .where = Where::kFailingCluster,
       .cause = RestartPrimaryNode},
      {.kind = FaultKind::kStoreRestarted,
       .name = "a server restarts",
       .where = Where::kQuorum,
       .cause = RestartServer},
      {.kind = FaultKind::kStorePaused, .name = "a server stands still", .where = Where::kQuorum, .cause = PauseServer},
      {.kind = FaultKind::kLinkSilent, .name = "a server is cut off", .where = Where::kQuorum, .cause = CutOffServer},
      {.kind = FaultKind::kLinkOneWay,
       .name = "a server is cut off one way",
       .where = Where::kQuorum,
       .cause = HalfCutOffServer},
      {.kind = FaultKind::kLinkSlow, .name = "a server is slow", .where = Where::kQuorum, .cause = SlowServer},
      {.kind = FaultKind::kStoreRefuses,
       .name = "a server's clock is set",
       .where = Where::kQuorum,
       .cause = SetServerClock},
      {.kind = FaultKind::kStoreRefuses,
       .name = "a server refuses writes",
       .where = Where::kQuorum,
       .cause = RefuseAtServer},
      {.kind = FaultKind::kLinkReset,
       .name = "a path fails over",
       .late = true,
       .where = Where::kPaths,
       .cause = MovePath},
      {.kind = FaultKind::kPromoted,
       .name = "a primary comes back while a broker stands still",
       .where = Where::kReturns,
       .cause = ReturnUnseen},
      {.kind = FaultKind::kPromoted,
       .name = "the server restarts with what it has",
       .where = Where::kHoldingOff,
       .cause = RestartHeldOff},
      {.kind = FaultKind::kPromoted,
       .name = "a replica is told to take over while its primary is cut off",
       .where = Where::kFailingCluster,
       .cause = ForceTakeoverApart},
      {.kind = FaultKind::kBrokerKilled,
       .name = "the longest ttl is lowered",
       .where = Where::kAnyHoldOff,
       .shows = Shows::kSettings,
       .cause = LowerLongestTtl},
      {.kind = FaultKind::kStoreClock,
       .name = "clocks change their rates",
       .where = Where::kSlewing,
       .cause = SlewClocks},
      {.kind = FaultKind::kBrokerKilled,
       .name = "the longest ttl is raised",
       .where = Where::kHoldOffs,
       .shows = Shows::kSettings,
       .cause = RaiseLongestTtl},
      {.kind = FaultKind::kPromoted,
       .name = "replicas miss what a primary writes, and one takes over",
       .where = Where::kHoldOffs,
       .shows = Shows::kPromotions,
       .cause = ReplaceUnheard},
      {.kind = FaultKind::kPromoted,
       .name = "somebody makes a replica the primary while the old one is cut off",
       .where = Where::kHoldOffs,
       .shows = Shows::kOldPrimaries,
       .cause = ReplaceApart},
      {.kind = FaultKind::kPromoted,
       .name = "a primary is cut off with one broker and no replica, and replaced at once",
       .splits = true,
       .where = Where::kHoldOffs,
       .shows = Shows::kLags,
       .cause = ReplaceAlone},
      {.kind = FaultKind::kBrokerKilled,
       .name = "confirmation by replicas or the length of the hold-off is set",
       .where = Where::kHoldOffs,
       .shows = Shows::kGuards,
       .cause = ChangeGuard},
      {.kind = FaultKind::kPromoted,
       .name = "an administrator deletes all data",
       .where = Where::kHoldOffs,
       .shows = Shows::kDeletions,
       .cause = DeleteAllData},
      {.kind = FaultKind::kStoreRestarted,
       .name = "a server comes back with the data of another",
       .where = Where::kHoldOffs,
       .shows = Shows::kCopies,
       .cause = ReplaceByCopy},
      {.kind = FaultKind::kPromoted,
       .name = "a server loses all data while no broker is there",
       .where = Where::kHoldOffs,
       .shows = Shows::kFirstStarts,
       .cause = StartAnew},
      {.kind = FaultKind::kPromoted,
       .name = "a server appends each second, and restarts as one that appends always",
       .where = Where::kHoldOffs,
       .shows = Shows::kAppends,
       .cause = AppendEachSecond},
  };
  return kAll;
}

}  // namespace distlock::sim
