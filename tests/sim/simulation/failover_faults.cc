// SPDX-License-Identifier: Apache-2.0
#include "simulation/failover_faults.h"

#include "simulation/simulation.h"

namespace distlock::sim {

// ---- Sentinel simulations ----

void AskFailover(Simulation& simulation) { simulation.replica_set().LosePrimary(ReplicaSet::Cause::kManual); }
void KillPrimary(Simulation& simulation) { simulation.replica_set().LosePrimary(ReplicaSet::Cause::kKilled); }
void HangPrimary(Simulation& simulation) { simulation.replica_set().LosePrimary(ReplicaSet::Cause::kPaused); }
void CutOffPrimary(Simulation& simulation) { simulation.replica_set().LosePrimary(ReplicaSet::Cause::kCutOff); }
void RestartPrimary(Simulation& simulation) {
  simulation.replica_set().RestartPrimary(simulation.replica_set().primary().AnyMemory());
}

// ---- Cluster simulations ----

void Reshard(Simulation& simulation) { simulation.cluster_set().Reshard(); }
void MoveAtOnce(Simulation& simulation) { simulation.cluster_set().MoveAtOnce(); }
void StormSlots(Simulation& simulation) { simulation.cluster_set().Storm(); }
void UncoverSlot(Simulation& simulation) { simulation.cluster_set().Uncover(); }
void IsolateNode(Simulation& simulation) { simulation.cluster_set().Isolate(); }

void RestartNode(Simulation& simulation) {
  StoreProcess& node = simulation.cluster_set().AnyNode();
  if (!node.alive()) return;
  const Duration down =
      simulation.dice().Between(milliseconds(1), simulation.dice().Chance(0.7) ? seconds(2) : seconds(20));
  simulation.env().NoteFault(FaultKind::kStoreRestarted, node.actor(), down + ClusterNode::kRejoins);
  node.Restart(down, Memory::kAll);
}

void ForceTakeover(Simulation& simulation) {
  simulation.cluster_failover().LosePrimary(ClusterFailover::Cause::kForced);
}
void ForceTakeoverApart(Simulation& simulation) {
  simulation.cluster_failover().LosePrimary(ClusterFailover::Cause::kForcedApart);
}
void KillNode(Simulation& simulation) { simulation.cluster_failover().LosePrimary(ClusterFailover::Cause::kKilled); }
void HangNode(Simulation& simulation) { simulation.cluster_failover().LosePrimary(ClusterFailover::Cause::kPaused); }
void CutOffNode(Simulation& simulation) { simulation.cluster_failover().LosePrimary(ClusterFailover::Cause::kCutOff); }
void ReturnUnseen(Simulation& simulation) { simulation.cluster_failover().ReturnUnseenBy(simulation.AnyBroker()); }
void RestartPrimaryNode(Simulation& simulation) { simulation.cluster_failover().RestartPrimary(); }

// ---- Both ----

void ReplaceUnheard(Simulation& simulation) {
  const Duration unheard = simulation.dice().Between(milliseconds(100), seconds(2));
  const bool killed = simulation.dice().Chance(0.3);
  if (simulation.env().temper.topology == Topology::kSentinel) {
    simulation.replica_set().LoseUnheard(unheard, killed ? ReplicaSet::Cause::kKilled : ReplicaSet::Cause::kManual);
  } else {
    simulation.cluster_failover().LoseUnheard(
        unheard, killed ? ClusterFailover::Cause::kKilled : ClusterFailover::Cause::kForced);
  }
}

void ReplaceApart(Simulation& simulation) {
  if (simulation.env().temper.topology == Topology::kSentinel) {
    simulation.replica_set().LosePrimary(ReplicaSet::Cause::kForcedApart);
  } else {
    simulation.cluster_failover().LosePrimary(ClusterFailover::Cause::kForcedApart);
  }
}

void ReplaceAlone(Simulation& simulation) {
  if (simulation.env().temper.topology == Topology::kSentinel) {
    simulation.replica_set().LoseAlone();
  } else {
    simulation.cluster_failover().LoseAlone();
  }
}

}  // namespace distlock::sim
