// SPDX-License-Identifier: Apache-2.0
//
// A whole simulation from one seed: stores, brokers, clients and, in every other simulation, a random mix of faults.
// First clients act and faults happen; then all faults are healed and every client must be served; then all clients
// leave, and nothing may be left over.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulation/client_process.h"
#include "simulation/cluster_failover.h"
#include "simulation/cluster_set.h"
#include "simulation/looker.h"
#include "simulation/replica_set.h"
#include "simulation/store_observer.h"
#include "simulation/vote_log.h"
#include "simulation/watcher.h"

namespace distlock::sim {

struct Outcome {
  uint64_t hash = 0;
  uint64_t events = 0;                  // events of the virtual time
  uint64_t records = 0;                 // records in the history
  Duration lasted{};                    // in virtual time
  std::vector<std::string> violations;  // stories
};

class Simulation {
 public:
  Simulation(uint64_t seed, const SimulationWishes& wishes, bool with_log);
  Simulation(uint64_t seed, Workload workload, bool with_log) : Simulation(seed, {.workload = workload}, with_log) {}
  Outcome Run();

  // The objects that faults act on.
  Env& env() { return env_; }
  Dice& dice() { return env_.dice; }
  // In a Cluster or a quorum: any of them.
  StoreProcess& primary() {
    if (cluster_set_ != nullptr) return cluster_set_->AnyNode();
    if (of_quorum()) return *stores_[static_cast<size_t>(dice().Roll(static_cast<int>(stores_.size())))];
    return replica_set_ == nullptr ? *stores_[primary_] : replica_set_->primary();
  }
  // In a Sentinel simulation only.
  ReplicaSet& replica_set() { return *replica_set_; }
  ClusterSet& cluster_set() { return *cluster_set_; }
  // In a Cluster simulation whose nodes fail over.
  ClusterFailover& cluster_failover() { return *cluster_failover_; }
  StoreObserver& observer() { return *observer_; }
  BrokerProcess& AnyBroker() { return *brokers_[static_cast<size_t>(dice().Roll(static_cast<int>(brokers_.size())))]; }
  std::vector<BrokerProcess*> LiveBrokers() const;
  ClientProcess& AnyClient() { return *clients_[static_cast<size_t>(dice().Roll(static_cast<int>(clients_.size())))]; }
  // In a Quorum simulation: a server for a fault that is felt for so long. Null: there is none now, because only a
  // minority may be at fault, and is.
  StoreProcess* Ail(FaultKind kind, Duration lasts);
  Duration longest_ttl() const;
  // No failover is under way, and no old primary goes on.
  bool HasOnePrimary() const;
  // In a Single simulation that holds off.
  const std::vector<std::unique_ptr<BrokerProcess>>& brokers() const { return brokers_; }
  void RestartHeldOff(Memory memory) {
    if (primary().alive()) RestartHeldOff(memory, dice().Between(milliseconds(1), seconds(5)));
  }
  void RestartHeldOff(Memory memory, Duration down);
  const std::vector<std::unique_ptr<StoreProcess>>& servers() const { return stores_; }  // of one or of a quorum
  std::vector<StoreProcess*> AllServers() const;                                         // of any store
  Instant clocks_right_at{};  // no server's clock may be set until then
  // A random open connection; null: there is none.
  WirePtr AnyWire();
  // Calls `undo` when `lasts` has passed, or when all faults are healed.
  void For(Duration lasts, std::function<void()> undo);
  Duration clock_set_back{};  // in total, of the store's clock
  // The newest replica becomes the primary; writes that had not reached it are lost.
  bool FailOver();

 private:
  void MakeStores();
  void MakeForgetful();
  void NoteHoldOff(Duration down);
  void MakeCluster();
  void MakeQuorum();
  bool of_quorum() const { return env_.temper.topology == Topology::kQuorum; }
  std::vector<store::ServerAddress> StoreAddresses() const;
  // In a simulation whose minority alone may be at fault.
  void ExpectServed();
  std::optional<core::ForceRelease> ForceAtQuorum();
  // In a quorum that is well: no server keeps a vote for a lease that was over some time ago.
  void CheckStrays();
  std::vector<Process*> Brokers() const;
  void MakeClients();
  void MakeWatchers();
  void MakeLookers();
  void CheckWatchers(int32_t lock, Instant since, Duration due);
  std::unique_ptr<ClientProcess> MakeClient(int number);
  void AddReplica(size_t index);
  void CauseFaults();
  void Administer();
  void Heal();
  bool Idle() const;
  std::string Waiting() const;
  void RunUntil(Duration longest, bool until_idle);
  void ExpectNothingLeft();
  void Left(const std::string& what, size_t count);

  Env env_;
  Directory directory_;
  std::vector<std::unique_ptr<StoreProcess>> stores_;
  size_t primary_ = 0;
  std::unique_ptr<ClusterSet> cluster_set_;  // of a Cluster simulation, which has no stores_
  std::unique_ptr<ClusterFailover> cluster_failover_;
  std::unique_ptr<ReplicaSet> replica_set_;  // of a Sentinel simulation, which has no stores_
  std::unique_ptr<StoreObserver> observer_;
  std::unique_ptr<FencedRegister> data_;
  std::vector<std::unique_ptr<BrokerProcess>> brokers_;
  std::vector<std::unique_ptr<ClientProcess>> clients_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
  std::vector<std::unique_ptr<Looker>> lookers_;
  bool told_in_time_ = false;  // no fault delays notices now
  std::vector<std::shared_ptr<std::function<void()>>> undo_;
  std::map<int64_t, Instant> over_;  // leases that were refused or released, by number
  size_t over_read_ = 0;             // records of the history, for over_
  VoteLog vote_log_;                 // of a Quorum simulation
  std::vector<Instant> well_at_;     // of a Quorum simulation whose minority may be at fault: by server
  core::RequestId forces_ = 0;
};

}  // namespace distlock::sim
