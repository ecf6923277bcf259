// SPDX-License-Identifier: Apache-2.0
//
// How primaries of a Cluster simulation are lost, and what the other nodes do then. Their vote is simplified: once they
// have missed a primary for the node-timeout, one of its replicas that they can reach takes its slots, with the data
// that it has. The old primary goes on until it has lost touch with the others for so long itself, or hears of it. One
// primary is lost at a time, since two of three are needed for a vote, and none while a slot of it moves.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "simulation/cluster_set.h"

namespace distlock::sim {

class ClusterFailover {
 public:
  enum class Cause : uint8_t {
    kForced,  // CLUSTER FAILOVER FORCE: the old primary is well, and is not waited for
    kKilled,  // and starts again later, with its data or without
    kPaused,
    kCutOff,       // with some brokers and at most one of its replicas; clients reach all
    kForcedApart,  // the same, and somebody does not wait for the others' vote
    kForcedAlone,  // the same with exactly one broker and no replica, for longer than a hold-off
  };

  // `brokers`: the processes that may be cut off with a primary.
  ClusterFailover(Env& env, ClusterSet& nodes, std::function<std::vector<Process*>()> brokers);

  // A failover, unless one is under way.
  void LosePrimary(Cause cause);
  // The same, after its replicas have heard nothing from it for a while.
  void LoseUnheard(Duration unheard, Cause cause);
  // The same by kForcedAlone, mostly at a moment from which the old primary goes on for long.
  void LoseAlone();
  // A primary is replaced, and comes back to its place without what was granted meanwhile. The broker stands still
  // through all of that, and keeps its connections.
  void ReturnUnseenBy(Process& broker);
  // A primary restarts before any other node notices.
  void RestartPrimary(std::optional<Memory> memory = {});
  // No failover is under way, and no old primary goes on.
  bool IsSettled() const;
  // No faults from now on; what is under way goes on.
  void Heal() { env_.apart_until = env_.now(); }
  // Nothing new is granted for so long after a node began to have the data to itself.
  Duration hold_off() const;

 private:
  Duration OwnHoldOff() const;
  void Lose(ClusterNode& old, Cause cause);
  void CutOffPrimary(ClusterNode& old);
  void CutOffAlone(ClusterNode& old);
  void CutOffAll(const std::set<int32_t>& apart, const std::vector<ClusterNode*>& minority, Duration time);
  void Promote(ClusterNode& old, Duration old_lives);
  void Replace(ClusterNode& old, ClusterNode& next, Duration old_lives);
  void Return(ClusterNode& first, ClusterNode& present, bool crashes);
  // Those that follow `primary` hear nothing from it.
  void StopStream(const ClusterNode& primary, Duration time);
  // The replica that takes over; null: none can be reached.
  ClusterNode* Candidate(const ClusterNode& old);
  // Makes `node` a replica of the primary of its group, once `after` has passed and it could be told.
  void DemoteLater(ClusterNode& node, Duration after);
  void Demote(ClusterNode& node);
  ClusterNode& PrimaryOf(const ClusterNode& node);
  void RefuseEverywhere(Duration time);
  void Restart(ClusterNode& node, Memory memory);
  void NotePromoted(const ClusterNode& node, Duration lasts);

  Env& env_;
  ClusterSet& set_;
  const std::function<std::vector<Process*>()> brokers_;
  bool failing_ = false;
  int attempts_ = 0;
};

}  // namespace distlock::sim
