// SPDX-License-Identifier: Apache-2.0
//
// How servers that replicate are lost, and what moves slots: rows of faults.cc.
#pragma once

namespace distlock::sim {

class Simulation;

// Sentinel simulations have these.
void AskFailover(Simulation& simulation);
void KillPrimary(Simulation& simulation);
void HangPrimary(Simulation& simulation);
void CutOffPrimary(Simulation& simulation);
void RestartPrimary(Simulation& simulation);

// Cluster simulations have these.
void Reshard(Simulation& simulation);
void MoveAtOnce(Simulation& simulation);
void StormSlots(Simulation& simulation);
void UncoverSlot(Simulation& simulation);
void IsolateNode(Simulation& simulation);
void RestartNode(Simulation& simulation);
void ForceTakeover(Simulation& simulation);
void ForceTakeoverApart(Simulation& simulation);
void KillNode(Simulation& simulation);
void HangNode(Simulation& simulation);
void CutOffNode(Simulation& simulation);
void ReturnUnseen(Simulation& simulation);
void RestartPrimaryNode(Simulation& simulation);

// Both have these. The replicas hear nothing from a primary for a while, and then one of them takes over.
void ReplaceUnheard(Simulation& simulation);
// A primary is cut off, with some brokers, and somebody makes a replica the primary at once.
void ReplaceApart(Simulation& simulation);
// The same with exactly one broker and no replica, for longer than a hold-off.
void ReplaceAlone(Simulation& simulation);

}  // namespace distlock::sim
