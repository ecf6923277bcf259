// SPDX-License-Identifier: Apache-2.0
//
// A world from one seed: one store, up to three brokers with the production core, clients, and, in every other seed, faults
// of a random mix. A time of trouble, then everything heals, everybody must be served, and nothing may be left over.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "callers.h"

namespace distlock::core {

class World {
 public:
  World(uint64_t seed, bool log);
  // Empty when all was well, else what was not.
  std::string Run();
  const Env& env() const { return env_; }

 private:
  void DrawTemper();
  void MakeStore();
  void WatchExpiry();
  void CauseFaults();
  void Fault(int kind);
  void EmptyStore();
  void RunUntil(Duration longest, bool until_idle);
  void ExpectNothingLeft();

  Env env_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Callers> callers_;
};

}  // namespace distlock::core
