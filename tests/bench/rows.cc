// SPDX-License-Identifier: Apache-2.0
#include "bench/rows.h"

#include <utility>

#include "bench/peers.h"

namespace distlock::bench {

std::vector<Section> Sections(const Setup& setup) {
  std::vector<Section> all;
  for (const auto& part : {UncontendedSections, GuardedSections, ContendedSections, QuorumSections, ClusterSections,
                           UpkeepSections, GrowthSections}) {
    for (Section& section : part(setup)) all.push_back(std::move(section));
  }
  AppendPeers(setup, &all);
  return all;
}

}  // namespace distlock::bench
