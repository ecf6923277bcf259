// SPDX-License-Identifier: Apache-2.0
//
// The stores of a Sentinel simulation: three servers that replicate, three sentinels, and what happens between them
// when the primary is lost. The sentinels' vote is simplified: a majority that can reach a replica and not the primary
// promotes it and raises the epoch. What brokers see is not: each sentinel hears of it in its own time, the old primary
// goes on writing until somebody reaches it, and the replicas follow one after the other.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "simulation/network.h"
#include "simulation/replica_server.h"
#include "simulation/sentinel_process.h"
#include "store/store_url.h"

namespace distlock::sim {

class ReplicaSet {
 public:
  static constexpr int kServers = 3;
  static constexpr int kSentinels = 3;

  // The cause of a loss.
  enum class Cause : uint8_t {
    kManual,  // SENTINEL FAILOVER: the old primary is well
    kKilled,  // and starts again later, with its data or without
    kPaused,
    kCutOff,       // with some brokers, replicas and sentinels; clients reach all
    kForcedApart,  // the same, and somebody does not wait for the sentinels
    kForcedAlone,  // the same with exactly one broker and no replica, for longer than a hold-off
  };

  // `brokers`: the processes that may be cut off with a primary.
  ReplicaSet(Env& env, Directory& directory, std::function<std::vector<Process*>()> brokers);

  // The server that was made the primary last.
  ReplicaServer& primary() { return *servers_[static_cast<size_t>(primary_)]; }
  // The addresses of the sentinels, for a broker.
  std::vector<store::ServerAddress> SentinelAddresses() const;
  SentinelProcess& AnySentinel();
  const std::vector<std::unique_ptr<ReplicaServer>>& servers() const { return servers_; }

  // A failover, unless one is under way.
  void LosePrimary(Cause cause);
  // The same, after its replicas have heard nothing from it for a while.
  void LoseUnheard(Duration unheard, Cause cause);
  // The same by kForcedAlone, mostly at a moment from which the old primary goes on for long.
  void LoseAlone();
  // No failover is under way, and no old primary goes on.
  bool IsSettled() const;
  // The primary restarts before any sentinel notices.
  void RestartPrimary(Memory memory);
  // No faults from now on; what is under way goes on.
  void Heal();
  // Nothing new is granted for so long after a server began to have the data to itself.
  Duration hold_off() const;

 private:
  Duration OwnHoldOff() const;
  void CutOffPrimary(Duration time);
  void CutOffAlone(Duration time);
  void CutOffAll(const std::set<int32_t>& apart, Duration time);
  void Promote(Duration old_primary_lives);
  // The replica that a failover takes; null: none can be reached.
  ReplicaServer* Candidate();
  void TellSentinels();
  void TellLater(SentinelProcess& sentinel, Duration after);
  // Makes `server` a follower of the primary, once it can be reached and `after` has passed.
  void DemoteLater(ReplicaServer& server, Duration after);
  void DemoteOnceReached(ReplicaServer& server);
  void NotePromoted(Duration lasts);

  // Clients that know no sentinels find the primary behind one name.
  void LeadName();
  // Before what it may have forgotten is over.
  void RestartSoon(ReplicaServer& promoted);

  Env& env_;
  Directory& directory_;
  const std::function<std::vector<Process*>()> brokers_;
  std::vector<std::unique_ptr<ReplicaServer>> servers_;
  std::vector<std::unique_ptr<SentinelProcess>> sentinels_;
  int primary_ = 0;
  uint64_t epoch_ = 1;
  bool failing_ = false;
  int attempts_ = 0;
};

}  // namespace distlock::sim
