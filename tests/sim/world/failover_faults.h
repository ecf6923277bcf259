// SPDX-License-Identifier: Apache-2.0
//
// How servers that replicate are lost, and what moves slots: rows of faults.cc.
#pragma once

namespace distlock::sim {

class World;

// Sentinel worlds have these.
void AskFailover(World& world);
void KillPrimary(World& world);
void HangPrimary(World& world);
void CutOffPrimary(World& world);
void RestartPrimary(World& world);

// Cluster worlds have these.
void Reshard(World& world);
void MoveAtOnce(World& world);
void StormSlots(World& world);
void UncoverSlot(World& world);
void IsolateNode(World& world);
void RestartNode(World& world);
void ForceTakeover(World& world);
void ForceTakeoverApart(World& world);
void KillNode(World& world);
void HangNode(World& world);
void CutOffNode(World& world);
void ReturnUnseen(World& world);
void RestartPrimaryNode(World& world);

// Both have these. The replicas hear nothing from a primary for a while, and then one of them takes over.
void ReplaceUnheard(World& world);
// A primary is cut off, with some brokers, and somebody makes a replica the primary at once.
void ReplaceApart(World& world);
// The same with exactly one broker and no replica, for longer than a hold-off.
void ReplaceAlone(World& world);

}  // namespace distlock::sim
