// SPDX-License-Identifier: Apache-2.0
//
// The store of several independent servers passes the suite, on three and five modelled servers.
#include "model_world.h"

namespace distlock::store {
namespace {

std::vector<StoreKind> QuorumKinds() {
  std::vector<StoreKind> kinds;
  for (const size_t servers : {size_t{3}, size_t{5}}) {
    kinds.push_back({servers == 3 ? "ModelOfThree" : "ModelOfFive",
                     {.virtual_time = true, .one_server = false, .has_permits = false, .is_quorum = true},
                     [servers] { return MakeModelWorld(servers); }});
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Redlock, StoreConformance, testing::ValuesIn(QuorumKinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Redlock, StoreConformanceOverTime, testing::ValuesIn(QuorumKinds()), NameOf);

}  // namespace
}  // namespace distlock::store
