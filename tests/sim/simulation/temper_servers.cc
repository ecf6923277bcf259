// SPDX-License-Identifier: Apache-2.0
#include "simulation/temper_servers.h"

#include "simulation/faults.h"

namespace distlock::sim {
namespace {

void AddFaults(Where where, double share, Dice& dice, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].where == where && dice.Chance(share)) temper.faults.push_back(static_cast<int>(i));
  }
}

// One server, whose restarts may lose all that it had; or one behind a name that a failover leads to a replica.
void MakeHoldingOff(Dice& dice, Temper& temper) {
  temper.hold_off = true;
  temper.replicas = 0;
  temper.name_moves = dice.Chance(0.5);
  temper.ttls = {dice.Chance(0.5) ? seconds(1) : seconds(2)};
  if (dice.Chance(0.3)) temper.ttls.push_back(seconds(5));
  if (dice.Chance(0.3)) temper.ttls.push_back(seconds(15));
  temper.busy_time = dice.Between(seconds(20), seconds(60));
  temper.fault_every = temper.name_moves ? dice.Pick<Duration>({seconds(4), seconds(10), seconds(20)})
                                         : dice.Pick<Duration>({seconds(1), seconds(4), seconds(10)});
  temper.force_every = Duration(0);  // the one that hold-offs leave out
  temper.downgrade = temper.together = 0;
  std::erase_if(temper.faults, [](int fault) { return Faults()[static_cast<size_t>(fault)].where == Where::kSingle; });
  AddFaults(temper.name_moves ? Where::kSentinel : Where::kHoldingOff, 0.7, dice, temper);
}

}  // namespace

void DrawServers(uint64_t seed, const SimulationWishes& wishes, Temper& temper) {
  Dice dice(seed ^ 0x73657276657273);
  temper.persistence = dice.Pick<Persistence>({Persistence::kNone, Persistence::kEverySecond, Persistence::kAlways});
  // With dice of its own, so that the rest of a simulation does not depend on it.
  const bool unsynced = Dice(seed ^ 0x72657772697465).Chance(0.5);
  if (unsynced && temper.persistence == Persistence::kEverySecond) temper.persistence = Persistence::kUnlessItRewrites;
  if (temper.calm) return;
  const bool is_steady_cluster = temper.topology == Topology::kCluster && !temper.failing_nodes;
  temper.slews = temper.drift_ppm > 0 && !is_steady_cluster && dice.Chance(0.3);
  const bool may_hold_off = temper.topology == Topology::kSingle && !temper.mild && wishes.hold_off;
  if (may_hold_off && dice.Chance(0.3)) MakeHoldingOff(dice, temper);
  // Leases that outlive an old primary which refuses by itself, as the table of guards asks for.
  const bool fails = temper.topology == Topology::kSentinel || temper.failing_nodes;
  if (fails && (temper.guard == FailoverGuard::kMinReplicas || dice.Chance(0.25))) temper.ttls = {seconds(5)};
  // In some simulations only a minority of servers may be at fault, and no broker.
  if (temper.hold_off && !temper.minority) AddFaults(Where::kAnyHoldOff, 0.3, dice, temper);
  if (temper.slews) AddFaults(Where::kSlewing, 0.7, dice, temper);
}

}  // namespace distlock::sim
