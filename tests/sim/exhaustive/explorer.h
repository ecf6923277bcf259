// SPDX-License-Identifier: Apache-2.0
//
// All paths of a small system from its setting's start, breadth first: a simulation is rebuilt from its path for each
// action that may follow. Simulations that cannot be told apart are followed once. Every simulation met is also run on
// to its fair end. The first path to a fault is therefore a shortest one. Deterministic; single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "exhaustive/setting.h"

namespace distlock::sim {

struct Exploration {
  int depth = 0;        // all paths of so many actions after the start have been followed
  uint64_t states = 0;  // that can be told apart
  uint64_t steps = 0;   // actions tried from them
  double paths = 0;     // of the full depth, which those states stand for
  double seconds = 0;
  core::Duration served_after{};  // the longest that anybody waited for an answer once all went well
  Path fault_path;                // with the start
  std::string fault;              // "" = none was found
};

// To `depth`, or to the depth that was reached when `seconds_max` of the machine's time had passed, if that is not 0.
Exploration Explore(const Setting& setting, int depth, double seconds_max = 0);

// The path in words, step by step, and its fault; with the fair end after it.
std::string Replay(const Setting& setting, const Path& path, const std::function<void(const std::string&)>& log);

}  // namespace distlock::sim
