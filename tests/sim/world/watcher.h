// SPDX-License-Identifier: Apache-2.0
//
// A program that watches a lock, and begins anew, at whichever broker lives, when its stream ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "world/broker_process.h"
#include "world/store_observer.h"

namespace distlock::sim {

class Watcher : public Process {
 public:
  Watcher(Env& env, int number, std::vector<std::unique_ptr<BrokerProcess>>& brokers);

  void Start();
  void Leave();
  int32_t lock() const { return lock_; }
  // Since when its stream has lasted; kNever: it has none.
  Instant begun() const { return begun_; }
  // What is wrong with what it was told last, when the lock is `now`; "" when nothing is.
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
