// SPDX-License-Identifier: Apache-2.0
//
// A store with one primary: a lock that its broker keeps for its next lease.
#include <algorithm>

#include "conformance.h"

namespace distlock::store {
namespace {

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";

// Owner 1 has it through broker A, which may keep it.
core::StoreAcquire Keeping() {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(1));
  acquire.lingers = true;
  acquire.info = std::string(kBrokerA) + ";one";
  return acquire;
}

// Owner 2 has it from now on.
core::StoreNote Noting(uint64_t from_token, uint64_t token) {
  return {.name = Lock("k"),
          .from = Owner(1),
          .from_token = from_token,
          .owner = Owner(2),
          .token = token,
          .ttl = std::chrono::seconds(15),
          .info = std::string(kBrokerA) + ";two",
          .readers = {}};
}

}  // namespace

TEST_P(StoreConformanceOfPrimaries, ANoteReplacesTheHolderByTheNextOneOfItsBroker) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, Keeping());
  const uint64_t token = held.token + 1;
  EXPECT_TRUE(Do<core::NoteDone>(a, Noting(held.token, token)).is_noted);
  EXPECT_TRUE(Do<core::NoteDone>(a, Noting(held.token, token)).is_noted) << "it may run twice";
  EXPECT_FALSE(Do<core::NoteDone>(a, Noting(held.token + 2, token + 2)).is_noted) << "of another grant";
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 1u);
  EXPECT_EQ(view->holders[0].owner, Owner(2));
  EXPECT_EQ(view->holders[0].token, token);
  EXPECT_EQ(view->holders[0].info, std::string(kBrokerA) + ";two");
  EXPECT_TRUE(view->holders[0].lingers);
  EXPECT_EQ(RenewAs(a, Owner(1), held.token), core::RenewResult::kAnothers);
  EXPECT_EQ(RenewAs(a, Owner(2), token), core::RenewResult::kRenewed);
  EXPECT_TRUE(GiveBack(a, 2).was_holder);
  EXPECT_FALSE(Do<core::NoteDone>(a, Noting(held.token, token)).is_noted);
  EXPECT_GT(Do<core::AcquireGranted>(a, Keeping()).token, token);
}

TEST_P(StoreConformanceOfPrimaries, WhoeverWantsALockThatMayLingerHasItsBrokerTold) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, Keeping());
  const auto recalls = [&] {
    return std::ranges::count_if(a.seen->inputs, [](const core::Input& input) {
      const auto* recall = std::get_if<core::RecallNotice>(&input);
      return recall != nullptr && recall->name == Lock("k");
    });
  };
  core::StoreAcquire one_try = MakeAcquire(0, Lock("k"), Owner(3));
  one_try.wait = false;
  const auto refused = Do<core::AcquireHeld>(b, one_try);
  ASSERT_EQ(refused.holders.size(), 1u);
  EXPECT_TRUE(refused.holders[0].lingers);
  EXPECT_TRUE(Await([&] { return recalls() == 1; }));
  core::StoreAcquire waits = MakeAcquire(0, Lock("k"), Owner(4));
  waits.wait = true;
  Do<core::AcquireQueued>(b, waits);
  EXPECT_TRUE(Await([&] { return recalls() == 2; }));
  EXPECT_EQ(Do<core::NoteDone>(a, Noting(held.token, held.token + 1)).queue_length, 1u);
}

}  // namespace distlock::store
