// SPDX-License-Identifier: Apache-2.0
//
// A whole world from one seed: stores, brokers, clients and, in every other one, faults of a mix of its own. First all act
// and things break; then everything heals and everybody must be served; then all leave and nothing may be left over.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "world/client_process.h"
#include "world/store_observer.h"
#include "world/watcher.h"

namespace distlock::sim {

struct Outcome {
  uint64_t hash = 0;
  uint64_t events = 0;                  // things that happened at an instant of their own
  uint64_t records = 0;                 // of them, told in the history
  Duration lasted{};                    // in the world
  std::vector<std::string> violations;  // stories
};

class World {
 public:
  World(uint64_t seed, Workload workload, bool with_log);
  Outcome Run();

  // What faults act on.
  Env& env() { return env_; }
  Dice& dice() { return env_.dice; }
  StoreProcess& primary() { return *stores_[primary_]; }
  StoreObserver& observer() { return *observer_; }
  BrokerProcess& AnyBroker() { return *brokers_[static_cast<size_t>(dice().Roll(static_cast<int>(brokers_.size())))]; }
  ClientProcess& AnyClient() { return *clients_[static_cast<size_t>(dice().Roll(static_cast<int>(clients_.size())))]; }
  // Any connection that is not within one machine; null when there is none.
  // Null: there is none. `also_local`: also one within a machine.
  WirePtr AnyWire(bool also_local = false);
  // Undone when `lasts` has passed, or when everything heals.
  void For(Duration lasts, std::function<void()> undo);
  Duration clock_set_back{};  // of the store, in all
  // The newest replica takes over; what had not reached it is lost.
  bool FailOver();

 private:
  void MakeStores();
  void MakeClients();
  void MakeWatchers();
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
  std::unique_ptr<StoreObserver> observer_;
  std::unique_ptr<FencedRegister> data_;
  std::vector<std::unique_ptr<BrokerProcess>> brokers_;
  std::vector<std::unique_ptr<ClientProcess>> clients_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
  bool told_in_time_ = false;  // nothing stands in the way of notices now
  std::vector<std::shared_ptr<std::function<void()>>> undo_;
  core::RequestId forces_ = 0;
};

}  // namespace distlock::sim
