// SPDX-License-Identifier: Apache-2.0
//
// A store with one primary: readers of one broker, of whom it knows but one, until they are spread.
#include <algorithm>

#include "conformance.h"

namespace distlock::store {
namespace {

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";

core::StoreAcquire Reader(const std::string& broker, uint8_t owner) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner));
  acquire.want.mode = core::Mode::kShared;
  acquire.wait = true;
  acquire.info = broker + ";" + std::to_string(owner);
  return acquire;
}

// Owner 1 has it through broker A, which may let others in.
core::StoreAcquire Covering() {
  core::StoreAcquire acquire = Reader(kBrokerA, 1);
  acquire.lingers = true;
  return acquire;
}

// Owner 1 and two more have it.
core::StoreNote Spreading(uint64_t token) {
  core::StoreNote spread{.name = Lock("k"),
                         .from = Owner(1),
                         .from_token = token,
                         .ttl = std::chrono::seconds(15),
                         .info = {},
                         .readers = {},
                         .last_token = token + 7};
  spread.readers = {{Owner(1), token, std::string(kBrokerA) + ";1"},
                    {Owner(2), token + 1, std::string(kBrokerA) + ";2"},
                    {Owner(3), token + 7, std::string(kBrokerA) + ";3"}};
  return spread;
}

}  // namespace

TEST_P(StoreConformanceOfPrimaries, ACoverIsSpreadToItsReaders) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, Covering());
  EXPECT_GT(held.cover_to, held.token);
  EXPECT_EQ(Do<core::AcquireGranted>(a, Covering()).cover_to, held.cover_to) << "it may run twice";
  auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 1u);
  EXPECT_TRUE(view->holders[0].lingers);
  EXPECT_EQ(view->holders[0].info, std::string(kBrokerA) + ";1");
  for (int again = 0; again < 2; ++again) EXPECT_TRUE(Do<core::NoteDone>(a, Spreading(held.token)).is_noted);
  view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 3u);
  for (uint8_t i = 0; i < 3; ++i) {
    EXPECT_EQ(view->holders[i].owner, Owner(static_cast<uint8_t>(i + 1)));
    EXPECT_FALSE(view->holders[i].lingers);
    EXPECT_EQ(view->holders[i].info, std::string(kBrokerA) + ";" + std::to_string(i + 1));
  }
  EXPECT_EQ(view->holders[2].token, held.token + 7);
  EXPECT_EQ(RenewAs(a, Owner(2), held.token + 1), core::RenewResult::kRenewed);
  EXPECT_GT(Do<core::AcquireGranted>(a, Reader(kBrokerA, 4)).token, held.token + 7);
  for (uint8_t owner = 1; owner < 5; ++owner) EXPECT_TRUE(GiveBack(a, owner).was_holder);
  EXPECT_FALSE(Do<core::NoteDone>(a, Spreading(held.token)).is_noted) << "nor late";
}

TEST_P(StoreConformanceOfPrimaries, ACoverKeepsOthersOutUntilItIsSpread) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, Covering());
  const auto queued = Do<core::AcquireQueued>(b, Reader(kBrokerB, 5));
  ASSERT_EQ(queued.holders.size(), 1u);
  EXPECT_TRUE(queued.holders[0].lingers);
  EXPECT_TRUE(Await([&] {
    return std::ranges::any_of(a.seen->inputs, [](const core::Input& input) {
      const auto* recall = std::get_if<core::RecallNotice>(&input);
      return recall != nullptr && recall->name == Lock("k");
    });
  }));
  EXPECT_TRUE(Do<core::AcquireQueued>(a, Reader(kBrokerA, 6)).holders[0].lingers);
  const auto spread = Do<core::NoteDone>(a, Spreading(held.token));
  ASSERT_EQ(spread.next.size(), 1u) << "of its own waiters";
  EXPECT_EQ(spread.next[0].owner, Owner(6));
  EXPECT_TRUE(Await([&] {
    return std::ranges::any_of(b.seen->inputs, [](const core::Input& input) {
      const auto* grant = std::get_if<core::GrantNotice>(&input);
      return grant != nullptr && grant->owner == Owner(5);
    });
  }));
  EXPECT_EQ(Inspect(a, Lock("k"))->holders.size(), 5u);
}

TEST_P(StoreConformanceOfPrimaries, BesideReadersThereIsNoCover) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Reader(kBrokerA, 2));
  EXPECT_EQ(Do<core::AcquireGranted>(a, Covering()).cover_to, 0u);
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 2u);
  EXPECT_FALSE(view->holders[1].lingers);
  EXPECT_EQ(view->holders[1].info, std::string(kBrokerA) + ";1");
}

}  // namespace distlock::store
