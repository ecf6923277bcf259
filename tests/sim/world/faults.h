// SPDX-License-Identifier: Apache-2.0
//
// What can go wrong in a world: one row each. A new fault is a row here and what it does in faults.cc.
#pragma once

#include <vector>

#include "history/history.h"

namespace distlock::sim {

class World;

struct Fault {
  FaultKind kind;
  const char* name;
  bool forgets = false;          // the store may lose what it promised to keep
  bool clock_goes_back = false;  // the store's
  bool mild = false;             // brokers and the store live on: nothing need be left to a ttl
  bool late = false;             // what was asked for runs after its broker has asked again
  void (*cause)(World& world) = nullptr;
};

const std::vector<Fault>& Faults();

}  // namespace distlock::sim
