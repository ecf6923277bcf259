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

class QuorumOfModels : public StoreConformance {};

// Their clocks were set forward, as it seems by what they pass on.
TEST_P(QuorumOfModels, DoesNotCountServersWhoseNoticesAreAheadOfTheirClocks) {
  using std::chrono::seconds;
  Broker broker = MakeBroker(
      LockOptions{.broker_id = "00000000000000b1",
                  .hold_off = {.kind = HoldOffOptions::Kind::kFixed, .fixed = seconds(1), .longest_ttl = seconds(15)}});
  world_->Advance(seconds(3));
  Do<core::AcquireGranted>(broker, MakeAcquire(0, Lock("before"), Owner(1), false));
  const auto notice = [&](std::string_view ahead_us) {
    world_->Command({"EVAL",
                     "local t = redis.call('TIME') "
                     "local now = string.format('%.0f', t[1] * 1000000 + t[2] + ARGV[1]) "
                     "return redis.call('PUBLISH', 'dl:grant:00000000000000b1', 'default/k\\n' .. now .. ';0')",
                     "0", ahead_us});
    Settle();
    world_->Advance(std::chrono::milliseconds(20));
  };
  notice("0");
  Do<core::AcquireGranted>(broker, MakeAcquire(0, Lock("of this moment"), Owner(1), false));
  notice("100000");
  Do<core::AcquireHeld>(broker, MakeAcquire(0, Lock("ahead"), Owner(1), false));
  world_->Advance(seconds(16));
  Do<core::AcquireGranted>(broker, MakeAcquire(0, Lock("as long as a lease later"), Owner(1), false));
}

INSTANTIATE_TEST_SUITE_P(Redlock, QuorumOfModels, testing::ValuesIn(QuorumKinds()), NameOf);

}  // namespace
}  // namespace distlock::store
