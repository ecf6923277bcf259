// SPDX-License-Identifier: Apache-2.0
//
// A lock's next holders, as the suite asks for it.
#include <algorithm>
#include <chrono>
#include <utility>

#include "conformance.h"

namespace distlock::store {

core::GiveBackDone StoreConformance::GiveBack(Broker& broker, uint8_t owner, uint64_t token) {
  auto done =
      Do<core::GiveBackDone>(broker, core::StoreRelease{.name = Lock("k"), .owner = Owner(owner), .token = token});
  EXPECT_TRUE(done.was_holder);
  return done;
}

testing::AssertionResult StoreConformance::HandsOn(Broker& broker, uint8_t owner, const std::vector<int>& expected) {
  const size_t heard = broker.seen->inputs.size();
  return AreNext(broker, heard, GiveBack(broker, owner).next, expected);
}

testing::AssertionResult StoreConformance::AreNext(Broker& broker, size_t heard,
                                                   const std::vector<core::HolderView>& told,
                                                   const std::vector<int>& expected) {
  std::vector<core::OwnerId> owners;
  for (const int number : expected) owners.push_back(Owner(static_cast<uint8_t>(number)));
  return OwnersAreNext(broker, heard, told, owners) << ", expected " << testing::PrintToString(expected);
}

testing::AssertionResult StoreConformance::OwnersAreNext(Broker& broker, size_t heard,
                                                         const std::vector<core::HolderView>& told,
                                                         const std::vector<core::OwnerId>& expected) {
  const bool is_quorum = GetParam().traits.is_quorum;
  const auto next = [&] {
    std::vector<core::OwnerId> owners;
    for (const core::HolderView& view : told) owners.push_back(view.owner);
    for (size_t i = heard; is_quorum && i < broker.seen->inputs.size(); ++i) {
      const auto* notice = std::get_if<core::GrantNotice>(&broker.seen->inputs[i]);
      if (notice != nullptr && notice->owner != core::OwnerId{}) owners.push_back(notice->owner);
    }
    if (is_quorum) std::sort(owners.begin(), owners.end());
    return owners;
  };
  if (is_quorum && expected.empty()) world_->Advance(std::chrono::milliseconds(50));
  if (is_quorum) Await([&] { return next().size() >= expected.size(); });
  if (next() == expected) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "next is " << testing::PrintToString(next());
}

}  // namespace distlock::store
