// SPDX-License-Identifier: Apache-2.0
#include "simulation/partition.h"

#include "simulation/wire.h"

namespace distlock::sim {

void CutOff(Env& env, const std::set<int32_t>& apart, const std::vector<Process*>& all, Duration time) {
  env.apart = apart;
  env.apart_until = env.now() + time;
  for (const Process* process : all) env.NoteFault(FaultKind::kLinkSilent, process->actor(), time);
  for (Process* process : all) {
    for (const WirePtr& wire : process->Wires()) {
      if (env.Apart(wire->end(Wire::kClient).actor(), wire->end(Wire::kServer).actor())) {
        wire->SilenceBoth(env.apart_until);
      }
    }
  }
}

}  // namespace distlock::sim
