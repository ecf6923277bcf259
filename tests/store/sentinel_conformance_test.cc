// SPDX-License-Identifier: Apache-2.0
//
// The store of a primary that sentinels watch passes the suite. With the replicas' confirmation hand-offs to other
// brokers are told otherwise: replica_confirmation_test.cc.
#include "model_world.h"

namespace distlock::store {
namespace {

std::vector<StoreKind> SentinelKinds() {
  const WorldTraits traits{.virtual_time = true};
  return {{"Model", traits, [] { return MakeSentinelModelWorld(); }},
          {"ModelInCompany", traits, [] { return MakeSentinelModelWorld(); }, true}};
}

INSTANTIATE_TEST_SUITE_P(Sentinel, StoreConformance, testing::ValuesIn(SentinelKinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sentinel, StoreConformanceOfOneServer, testing::ValuesIn(SentinelKinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sentinel, StoreConformanceOfPermits, testing::ValuesIn(SentinelKinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sentinel, StoreConformanceOfPrimaries, testing::ValuesIn(SentinelKinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sentinel, StoreConformanceOfPrimariesOverTime, testing::ValuesIn(SentinelKinds()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sentinel, StoreConformanceOverTime, testing::ValuesIn(SentinelKinds()), NameOf);

}  // namespace
}  // namespace distlock::store
