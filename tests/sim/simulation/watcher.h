// SPDX-License-Identifier: Apache-2.0
//
// A program that watches a lock; when its stream ends, it begins a new one at any live broker.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulation/broker_process.h"
#include "simulation/store_observer.h"

namespace distlock::sim {

class Watcher : public Process {
 public:
  Watcher(Env& env, int number, std::vector<std::unique_ptr<BrokerProcess>>& brokers);

  void Start();
  void Leave();
  int32_t lock() const { return lock_; }
  // When its present stream began; kNever: it has none.
  Instant begun() const { return begun_; }
  // The difference between its last event and the lock's present state; "": none.
  std::string Wrong(const StoreObserver::Sight& now) const;

 private:
  class Ears;

  void Begin();
  void OnOver();

  std::vector<std::unique_ptr<BrokerProcess>>& brokers_;
  const int32_t lock_;
  WirePtr wire_;
  Instant begun_ = kNever;
  std::optional<StoreObserver::Sight> told_;
  bool left_ = false;
};

}  // namespace distlock::sim
