// SPDX-License-Identifier: Apache-2.0
#include "simulation/temper.h"

#include <algorithm>

#include "simulation/faults.h"
#include "simulation/temper_elsewhere.h"
#include "simulation/temper_hold_offs.h"
#include "simulation/temper_network.h"
#include "simulation/temper_servers.h"

namespace distlock::sim {
namespace {

// A long ttl shows whether brokers undo grants that nobody wants, or leave them to the ttl. With few clients, a late
// command finds a lock free.
void MakeMild(Dice& dice, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.mild = true;
  temper.faults.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].mild && dice.Chance(0.5)) temper.faults.push_back(static_cast<int>(i));
  }
  temper.ttls = {seconds(15)};
  temper.clients = std::min(temper.clients, 4);
  temper.locks = std::max(temper.locks, temper.clients);
}

// Brokers drain one after the other, and nothing else is wrong: no waiter may lose its place.
void MakeRolling(Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.mild = true;
  temper.faults.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind == FaultKind::kBrokerDrained) temper.faults.push_back(static_cast<int>(i));
  }
  temper.fault_every = seconds(4);
  temper.brokers = 3;
}

void DrawFaults(Dice& dice, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.fault_every = dice.Pick<Duration>({milliseconds(300), seconds(1), seconds(4)});
  const double share = dice.Pick<double>({0.12, 0.3, 0.6});
  // Those of Cluster and of Quorum simulations are the last rows.
  const auto rows =
      static_cast<size_t>(std::ranges::count_if(all, [](const Fault& fault) { return fault.where < Where::kCluster; }));
  for (size_t i = 0; i < rows; ++i) {
    const bool happens = dice.Chance(share);
    if (happens && all[i].where != Where::kSentinel) temper.faults.push_back(static_cast<int>(i));
  }
  if (dice.Chance(0.2)) MakeMild(dice, temper);
  if (dice.Chance(0.1)) MakeRolling(temper);
  while (temper.faults.empty()) {
    const int fault = dice.Roll(static_cast<int>(rows));
    if (all[static_cast<size_t>(fault)].where != Where::kSentinel) temper.faults.push_back(fault);
  }
  // A store that loses its tokens and whose clock goes back gives the same tokens again; no lock service can prevent
  // that.
  const auto forgets = [&](int fault) { return all[static_cast<size_t>(fault)].forgets; };
  const auto goes_back = [&](int fault) { return all[static_cast<size_t>(fault)].clock_goes_back; };
  const bool may_forget = std::any_of(temper.faults.begin(), temper.faults.end(), forgets);
  if (may_forget) std::erase_if(temper.faults, goes_back);
  // After a failover the new server may bring back a lease as it was before its downgrade, or a lock of a request for
  // several that was reported late. The checkers cannot tell that from a bug.
  if (may_forget) temper.downgrade = temper.together = 0;
  // For tokens, a failover to a server whose clock is behind is the same.
  const auto is = [&](FaultKind kind) {
    return [&all, kind](int f) { return all[static_cast<size_t>(f)].kind == kind; };
  };
  if (std::any_of(temper.faults.begin(), temper.faults.end(), is(FaultKind::kFailover))) {
    std::erase_if(temper.faults, is(FaultKind::kStoreClock));
  }
  temper.slow = temper.mild || dice.Chance(0.5) ? 0 : 0.1;
  temper.slowest_delay = dice.Pick<Duration>({milliseconds(50), milliseconds(700), seconds(3)});
  // Less than the time after which a silent channel is given up.
  if (!temper.mild && dice.Chance(0.3)) {
    temper.notice_lag = dice.Between(milliseconds(300), milliseconds(2800));
    temper.queue_slot = seconds(6);  // so that a broker tends its queues before the notices arrive
  }
}

void DrawClients(Dice& dice, Temper& temper) {
  temper.one_try = dice.Chance(0.4) ? 0 : 0.2;
  temper.bounded_wait = dice.Chance(0.4) ? 0 : 0.2;
  temper.impatient = dice.Chance(0.5) ? 0 : 0.2;
  temper.careless = dice.Chance(0.4) ? 0 : 0.5;
  temper.proofs = dice.Chance(0.3) ? 0 : 0.8;
  temper.max_hold = dice.Chance(0.6) ? 0 : 0.2;
  temper.moves = dice.Chance(0.3) ? 0 : dice.Chance(0.5) ? 1 : 0.5;
  temper.lock_delay = dice.Chance(0.6) ? 0 : 0.3;
  temper.downgrade = dice.Chance(0.5) ? 0 : 0.3;
  temper.reentrant = dice.Chance(0.5) ? 0 : 0.3;
  temper.together = dice.Chance(0.5) ? 0 : 0.3;
  if (dice.Chance(0.3)) temper.force_every = dice.Pick<Duration>({milliseconds(100), seconds(1)});
  temper.longest_hold = dice.Pick<Duration>({milliseconds(2), milliseconds(300), seconds(4)});
  temper.longest_pause = dice.Pick<Duration>({milliseconds(5), milliseconds(300), seconds(2)});
  if (temper.workload == Workload::kQueue) {
    temper.longest_hold = milliseconds(50);
    temper.one_try = 0;
  }
  if (temper.workload == Workload::kChurn) temper.longest_hold = temper.longest_pause = milliseconds(2);
}

// Half of the simulations that may have them have locks of other modes and policies than EXCLUSIVE and FAIR.
void DrawWays(Dice& dice, Temper& temper) {
  temper.ways.resize(static_cast<size_t>(temper.locks));
  if (temper.readers > 0) {
    for (Way& way : temper.ways) way.readers = temper.readers;
    return;
  }
  const bool permits = temper.workload == Workload::kPermit;
  const bool rw = temper.workload == Workload::kRw;
  if (!permits && !rw && (temper.mutexes || dice.Chance(0.5))) return;
  for (Way& way : temper.ways) {
    const bool special = permits || rw || dice.Chance(0.7);
    if (!special) continue;
    way.policy = static_cast<core::Policy>(dice.Chance(0.5) ? 0 : dice.Roll(4));
    if (permits || (!rw && dice.Chance(0.4))) {
      way.limit = static_cast<uint32_t>(1 + dice.Roll(5));
    } else {
      way.readers = dice.Pick<double>({0.3, 0.7, 0.95});
    }
  }
}

// Many locks are held at the same time and for long, so that their renewals leave in batches.
void MakeWide(Dice& dice, Temper& temper) {
  temper.locks = 4 + dice.Roll(5);
  temper.clients = std::max(temper.clients, 4);
  temper.longest_hold = seconds(4);
  temper.ttls = {dice.Chance(0.5) ? seconds(1) : seconds(2)};
}

// Failovers, of which every lock of every holder that relies on it must come out unharmed.
void MakeFailing(Dice& dice, Temper& temper) {
  temper.hold_off = true;
  temper.guard = static_cast<FailoverGuard>(dice.Roll(3));
  temper.ttls = {dice.Chance(0.5) ? seconds(1) : seconds(2)};
  if (dice.Chance(0.3)) temper.ttls.push_back(seconds(5));
  temper.busy_time = dice.Between(seconds(20), seconds(60));
  // Nothing new is granted for a while after each failover, and for longer where nothing guards it.
  temper.fault_every = temper.guard == FailoverGuard::kNone
                           ? dice.Pick<Duration>({seconds(4), seconds(10), seconds(20)})
                           : dice.Pick<Duration>({seconds(1), seconds(4), seconds(10)});
  temper.force_every = Duration(0);  // a holder whose broker is deaf, taken by force: the one that hold-offs leave out
}

void MakeSentinel(Dice& dice, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.topology = Topology::kSentinel;
  temper.replicas = 0;
  temper.mild = false;
  MakeFailing(dice, temper);
  std::erase_if(temper.faults, [&](int fault) { return all[static_cast<size_t>(fault)].where == Where::kSingle; });
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].where == Where::kSentinel && dice.Chance(0.5)) temper.faults.push_back(static_cast<int>(i));
  }
}

// Slots that move from node to node, by which nobody loses a lock. In some simulations nodes fail over, too.
void MakeCluster(Dice& dice, Temper& temper, bool fails) {
  const std::vector<Fault>& all = Faults();
  temper.topology = Topology::kCluster;
  temper.replicas = 0;
  temper.mild = false;
  temper.locks = std::max(temper.locks, 1 + dice.Roll(5));
  temper.skewed_nodes = dice.Chance(0.5);
  temper.nameless_nodes = dice.Chance(0.3);
  std::erase_if(temper.faults, [&](int fault) { return all[static_cast<size_t>(fault)].where == Where::kSingle; });
  if (temper.calm) return;
  temper.fault_every = dice.Pick<Duration>({milliseconds(300), seconds(1), seconds(4)});
  temper.failing_nodes = dice.Chance(0.4) || fails;
  if (temper.failing_nodes) {
    MakeFailing(dice, temper);
    temper.fault_every = dice.Pick<Duration>({seconds(1), seconds(2), seconds(4)});
    temper.together = 0;  // taken one by one, and only who observes the store sees that the first ones are held
  }
  temper.full_coverage = temper.failing_nodes && dice.Chance(0.5);
  const Where not_here = temper.failing_nodes ? Where::kSteadyCluster : Where::kFailingCluster;
  for (size_t i = 0; i < all.size(); ++i) {
    const Where where = all[i].where;
    const bool may = where >= Where::kCluster && where != not_here && where < Where::kQuorum;
    if (may && dice.Chance(0.7)) temper.faults.push_back(static_cast<int>(i));
  }
  // Where a slot moves, much is excused for a while. Here no slot does, and nothing is.
  if (temper.failing_nodes || !dice.Chance(0.1)) return;
  AllowOnly([](const Fault& fault) { return fault.harmless; }, temper);
  temper.fault_every = seconds(1);
  temper.slow = 0;
  temper.notice_lag = Duration(0);
}

// Servers that stop, forget, are slow or cannot be reached, and whose clocks are set.
void MakeQuorum(Dice& dice, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.topology = Topology::kQuorum;
  temper.nodes = dice.Chance(0.6) ? 3 : 5;
  temper.hold_off = true;
  temper.replicas = 0;
  temper.mild = false;
  if (temper.workload == Workload::kPermit) temper.workload = Workload::kRw;
  std::erase_if(temper.faults, [&](int fault) { return all[static_cast<size_t>(fault)].where == Where::kSingle; });
  if (temper.calm) return;
  temper.fault_every = dice.Pick<Duration>({milliseconds(300), seconds(1), seconds(4)});
  temper.minority = dice.Chance(0.3);
  if (temper.minority) {
    temper.faults.clear();
    temper.slow = temper.careless = 0;
    temper.notice_lag = Duration(0);
    // A server that was restarted is not counted for as long as the longest ttl.
    temper.ttls = {dice.Chance(0.5) ? seconds(1) : seconds(2)};
    temper.busy_time = dice.Between(seconds(10), seconds(30));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].where == Where::kQuorum && dice.Chance(0.7)) temper.faults.push_back(static_cast<int>(i));
  }
}

// Not of the dice: other simulations stay as they are.
void DrawStrays(uint64_t seed, Temper& temper) {
  const uint64_t draw = Dice(seed ^ 0x6c696e676572).Next() >> 8;
  temper.strays = draw / 2304 % 3 == 0 ? 0.0 : 0.3;
}

// Not of the dice either: in each eighth simulation.
void DrawMinHold(uint64_t seed, Temper& temper) {
  if (Dice(seed ^ 0x6d696e686f6c64).Next() >> 8 & 7) return;
  temper.min_hold = 0.3;
}

// Not of the dice either.
void DrawLookers(uint64_t seed, Temper& temper) {
  Dice dice(seed ^ 0x6c6f6f6b);
  temper.lookers = std::min(dice.Roll(4), 2);
  temper.look_every = dice.Pick<Duration>({milliseconds(60), milliseconds(300), seconds(1)});
}

// Many clients want one lock for short times, so that a late command finds another holder.
void MakeBusy(Temper& temper) {
  AllowOnly([](const Fault& fault) { return fault.late; }, temper);
  temper.fault_every = seconds(1);
  temper.clients = std::max(temper.clients, 4);
  temper.locks = 1;
  temper.longest_hold = milliseconds(300);
  temper.longest_pause = milliseconds(5);
  temper.downgrade = 0.3;
}

}  // namespace

const std::vector<std::pair<std::string, Workload>>& Workloads() {
  static const std::vector<std::pair<std::string, Workload>> kAll = {
      {"mixed", Workload::kMixed}, {"mutex", Workload::kMutex},       {"queue", Workload::kQueue},
      {"churn", Workload::kChurn}, {"detached", Workload::kDetached}, {"hold", Workload::kHold},
      {"rw", Workload::kRw},       {"permit", Workload::kPermit}};
  return kAll;
}

const std::vector<std::pair<std::string, Topology>>& Topologies() {
  static const std::vector<std::pair<std::string, Topology>> kAll = {{"single", Topology::kSingle},
                                                                     {"sentinel", Topology::kSentinel},
                                                                     {"cluster", Topology::kCluster},
                                                                     {"quorum", Topology::kQuorum}};
  return kAll;
}

Temper DrawTemper(uint64_t seed, Dice& dice, const SimulationWishes& wishes) {
  const Workload wanted = wishes.workload;
  Temper temper;
  const bool sentinel = wishes.topology ? *wishes.topology == Topology::kSentinel : seed % 8 == 7;
  const bool cluster = wishes.topology == Topology::kCluster;
  // Without a failover nothing shows what the hold-off is for.
  const bool fails = cluster && !wishes.hold_off;
  temper.calm = seed % 2 == 0 && !sentinel && !fails;
  temper.workload = wanted;
  if (wanted == Workload::kMixed && dice.Chance(0.6)) temper.workload = static_cast<Workload>(1 + dice.Roll(7));
  temper.brokers = 1 + dice.Roll(3);
  temper.clients = 1 + dice.Roll(dice.Chance(0.2) ? 20 : 6);
  temper.locks = 1 + dice.Roll(3);
  if (temper.workload == Workload::kQueue) temper.locks = 1;
  temper.replicas = dice.Roll(3);
  temper.counts_listeners = dice.Chance(0.7);
  temper.drift_ppm = dice.Pick<int>({0, 50, 500});
  temper.shortest_delay = microseconds(20);
  temper.usual_delay = dice.Pick<Duration>({microseconds(100), milliseconds(1), milliseconds(5)});
  temper.validity = dice.Pick<Duration>({seconds(3), seconds(1)});
  temper.queue_slot = dice.Pick<Duration>({seconds(30), seconds(6)});
  temper.store_timeout = dice.Pick<Duration>({seconds(5), seconds(1)});
  for (const Duration ttl : {seconds(1), seconds(2), seconds(5), seconds(15)}) {
    if (dice.Chance(0.5)) temper.ttls.push_back(ttl);
  }
  if (temper.ttls.empty()) temper.ttls.push_back(seconds(2));
  temper.busy_time = dice.Between(seconds(2), seconds(dice.Chance(0.3) ? 30 : 10));
  DrawClients(dice, temper);
  DrawMinHold(seed, temper);
  const bool wide = temper.workload != Workload::kQueue && dice.Chance(0.1);
  if (wide) MakeWide(dice, temper);
  if (temper.calm) temper.careless = 0;
  if (!temper.calm) DrawFaults(dice, temper);
  // Then a client may lose only a lock whose key was deleted.
  if (!temper.calm && wide && dice.Chance(0.3)) {
    AllowOnly([](const Fault& fault) { return fault.kind == FaultKind::kKeyDeleted; }, temper);
  }
  if (!temper.calm && seed / 4 % 8 == 0) MakeBusy(temper);
  if (sentinel) MakeSentinel(dice, temper);
  if (cluster) MakeCluster(dice, temper, fails);
  if (wishes.topology == Topology::kQuorum) MakeQuorum(dice, temper);
  DrawServers(seed, wishes, temper);
  temper.hold_off = temper.hold_off && wishes.hold_off;
  DrawNetwork(seed, temper);
  DrawStrays(seed, temper);
  DrawLookers(seed, temper);
  if (wishes.workload == Workload::kMixed) DrawElsewhere(seed, temper);
  if (wishes.workload == Workload::kMixed) DrawHoldOffs(seed, temper);
  // An old primary that still takes writes does not hear of an adoption, and frees the lock when its stream ends.
  const auto splits = [](int fault) { return Faults()[static_cast<size_t>(fault)].splits; };
  if (temper.guard != FailoverGuard::kConfirmed && std::ranges::any_of(temper.faults, splits)) temper.moves = 0;
  DrawWays(dice, temper);  // after the number of locks is drawn
  if (temper.topology == Topology::kQuorum) {
    for (Way& way : temper.ways) way.limit = 0;  // there are no permits
  }
  // Each of many holders has an end by the clock of the node that granted it, so there clocks must be kept together.
  if (std::ranges::any_of(temper.ways, [](const Way& way) { return way.readers > 0 || way.limit > 0; })) {
    temper.skewed_nodes = false;
  }
  if (temper.skewed_nodes) temper.downgrade = temper.max_hold = 0;
  temper.forgets =
      sentinel || temper.failing_nodes || temper.hold_off || temper.topology == Topology::kQuorum ||
      std::ranges::any_of(temper.faults, [](int fault) { return Faults()[static_cast<size_t>(fault)].forgets; });
  if (seed / 2 % 2 == 1) temper.gather = milliseconds(2);
  return temper;
}

}  // namespace distlock::sim
