// SPDX-License-Identifier: Apache-2.0
//
// A network that falls apart: some processes hear nothing from the others, nor the others from them. Clients reach all.
#pragma once

#include <set>
#include <vector>

#include "simulation/process.h"

namespace distlock::sim {

// Cuts the processes `apart` off from the others of `all`, for `time`.
void CutOff(Env& env, const std::set<int32_t>& apart, const std::vector<Process*>& all, Duration time);

inline bool CutAway(const Env& env, const Process& process) {
  return env.now() < env.apart_until && env.apart.contains(process.actor());
}

}  // namespace distlock::sim
