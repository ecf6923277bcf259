// SPDX-License-Identifier: Apache-2.0
#include "world/failover_faults.h"

#include "world/world.h"

namespace distlock::sim {

// ---- Of Sentinel worlds ----

void AskFailover(World& world) { world.replica_set().LosePrimary(ReplicaSet::Cause::kManual); }
void KillPrimary(World& world) { world.replica_set().LosePrimary(ReplicaSet::Cause::kKilled); }
void HangPrimary(World& world) { world.replica_set().LosePrimary(ReplicaSet::Cause::kPaused); }
void CutOffPrimary(World& world) { world.replica_set().LosePrimary(ReplicaSet::Cause::kCutOff); }
void RestartPrimary(World& world) { world.replica_set().RestartPrimary(world.replica_set().primary().AnyMemory()); }

// ---- Of Cluster worlds ----

void Reshard(World& world) { world.cluster_set().Reshard(); }
void MoveAtOnce(World& world) { world.cluster_set().MoveAtOnce(); }
void StormSlots(World& world) { world.cluster_set().Storm(); }
void UncoverSlot(World& world) { world.cluster_set().Uncover(); }
void IsolateNode(World& world) { world.cluster_set().Isolate(); }

void RestartNode(World& world) {
  StoreProcess& node = world.cluster_set().AnyNode();
  if (!node.alive()) return;
  const Duration down = world.dice().Between(milliseconds(1), world.dice().Chance(0.7) ? seconds(2) : seconds(20));
  world.env().NoteFault(FaultKind::kStoreRestarted, node.actor(), down + ClusterNode::kRejoins);
  node.Restart(down, Memory::kAll);
}

void ForceTakeover(World& world) { world.cluster_failover().LosePrimary(ClusterFailover::Cause::kForced); }
void ForceTakeoverApart(World& world) { world.cluster_failover().LosePrimary(ClusterFailover::Cause::kForcedApart); }
void KillNode(World& world) { world.cluster_failover().LosePrimary(ClusterFailover::Cause::kKilled); }
void HangNode(World& world) { world.cluster_failover().LosePrimary(ClusterFailover::Cause::kPaused); }
void CutOffNode(World& world) { world.cluster_failover().LosePrimary(ClusterFailover::Cause::kCutOff); }
void ReturnUnseen(World& world) { world.cluster_failover().ReturnUnseenBy(world.AnyBroker()); }
void RestartPrimaryNode(World& world) { world.cluster_failover().RestartPrimary(); }

// ---- Of both ----

void ReplaceUnheard(World& world) {
  const Duration unheard = world.dice().Between(milliseconds(100), seconds(2));
  const bool killed = world.dice().Chance(0.3);
  if (world.env().temper.topology == Topology::kSentinel) {
    world.replica_set().LoseUnheard(unheard, killed ? ReplicaSet::Cause::kKilled : ReplicaSet::Cause::kManual);
  } else {
    world.cluster_failover().LoseUnheard(unheard,
                                         killed ? ClusterFailover::Cause::kKilled : ClusterFailover::Cause::kForced);
  }
}

void ReplaceApart(World& world) {
  if (world.env().temper.topology == Topology::kSentinel) {
    world.replica_set().LosePrimary(ReplicaSet::Cause::kForcedApart);
  } else {
    world.cluster_failover().LosePrimary(ClusterFailover::Cause::kForcedApart);
  }
}

void ReplaceAlone(World& world) {
  if (world.env().temper.topology == Topology::kSentinel) {
    world.replica_set().LoseAlone();
  } else {
    world.cluster_failover().LoseAlone();
  }
}

}  // namespace distlock::sim
