// SPDX-License-Identifier: Apache-2.0
//
// Any Store: the bound of a hold is the store's own, whatever its holder claims when it renews.
#include "conformance.h"

namespace distlock::store {
namespace {

using core::Mode;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kBroker[] = "00000000000000a1";
constexpr core::Duration kMaxHold = seconds(1);

core::StoreAcquire Bounded(uint8_t owner, Mode mode) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner));
  acquire.want = {.mode = mode, .permits = mode == Mode::kPermit ? 1U : 0U, .limit = mode == Mode::kPermit ? 2U : 0U};
  acquire.ttl = acquire.max_hold = kMaxHold;  // the core asks for no ttl beyond it
  return acquire;
}

// As a caller renews who does not tell of any max_hold.
core::StoreRenew ByCaller(const core::OwnerId& owner, uint64_t token) {
  return {.items = {{.name = Lock("k"), .owner = owner, .token = token, .ttl = seconds(15), .ours = false}}};
}

}  // namespace

TEST_P(StoreConformance, NoCallerRenewsBeyondMaxHold) {
  Broker a = MakeBroker(kBroker);
  for (const Mode mode : {Mode::kExclusive, Mode::kShared, Mode::kPermit}) {
    const auto held = Do<core::AcquireGranted>(a, Bounded(1, mode));
    core::RenewDoneBatch renewed;
    const auto is_over = [&] {
      renewed = Do<core::RenewDoneBatch>(a, ByCaller(Owner(1), held.token));
      if (renewed.hold_left.size() != 1 || renewed.results[0] != core::RenewResult::kRenewed) return true;
      EXPECT_LE(renewed.hold_left[0], kMaxHold);
      return false;
    };
    ASSERT_TRUE(Await(is_over));
    EXPECT_NE(renewed.results[0], core::RenewResult::kRenewed);
    EXPECT_TRUE(Await([&] { return Inspect(a, Lock("k"))->holders.empty(); }));
  }
}

TEST_P(StoreConformance, TheBoundShowsNowhereAndABrokersOwnLeaseIsNotCut) {
  Broker a = MakeBroker(kBroker);
  const auto held = Do<core::AcquireGranted>(a, Bounded(1, Mode::kExclusive));
  core::StoreAcquire waiter = Bounded(2, Mode::kExclusive);
  waiter.wait = true;
  Do<core::AcquireQueued>(a, waiter);
  core::StoreRenew renew = ByCaller(Owner(1), held.token);
  renew.items[0].ours = true;
  for (const core::Duration ttl : {seconds(15), seconds(20)}) {
    renew.items[0].ttl = ttl;
    EXPECT_TRUE(Do<core::RenewDoneBatch>(a, renew).hold_left.empty());
  }
  const auto view = Inspect(a, Lock("k"));
  EXPECT_GT(view->holders.at(0).time_left, kMaxHold);
  EXPECT_EQ(view->holders.at(0).info, waiter.info);
  EXPECT_EQ(view->waiters.at(0).info, waiter.info);
}

TEST_P(StoreConformance, AWaitersHoldIsBoundedFromItsGrantOn) {
  Broker a = MakeBroker(kBroker);
  const auto held = Do<core::AcquireGranted>(a, MakeAcquire(0, Lock("k"), Owner(1)));
  core::StoreAcquire waiter = Bounded(2, Mode::kExclusive);
  waiter.wait = true;
  Do<core::AcquireQueued>(a, waiter);
  const size_t heard = a.seen->inputs.size();
  const auto released =
      Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(1), .token = held.token});
  ASSERT_TRUE(AreNext(a, heard, released.next, {2}));
  const auto renewed = Do<core::RenewDoneBatch>(a, ByCaller(Owner(2), Inspect(a, Lock("k"))->holders.at(0).token));
  ASSERT_EQ(renewed.hold_left.size(), 1u);
  EXPECT_LE(renewed.hold_left[0], kMaxHold);
}

TEST_P(StoreConformance, AnAdoptionKeepsTheBound) {
  Broker a = MakeBroker(kBroker);
  for (const Mode mode : {Mode::kExclusive, Mode::kShared}) {
    const auto held = Do<core::AcquireGranted>(a, Bounded(1, mode));
    const core::StoreAdopt adopt{.name = Lock("k"),
                                 .from = Owner(1),
                                 .token = held.token,
                                 .owner = Owner(7),
                                 .want = Bounded(1, mode).want,
                                 .info = "adopted"};
    EXPECT_EQ(Do<core::AdoptDone>(a, adopt).max_hold, kMaxHold);
    EXPECT_EQ(Inspect(a, Lock("k"))->holders.at(0).info, "adopted");
    const auto renewed = Do<core::RenewDoneBatch>(a, ByCaller(Owner(7), held.token));
    ASSERT_EQ(renewed.hold_left.size(), 1u);
    EXPECT_LE(renewed.hold_left[0], kMaxHold);
    Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(7), .token = held.token});
  }
}

TEST_P(StoreConformanceOfOneServer, LocksThatAreTakenTogetherAreBounded) {
  Broker a = MakeBroker(kBroker);
  core::StoreAcquireAll all{.items = {Bounded(1, Mode::kExclusive), Bounded(2, Mode::kShared)}};
  all.items[1].name = Lock("l");
  const auto held = Do<core::AcquireAllDone>(a, all);
  ASSERT_EQ(held.grants.size(), 2u);
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, ByCaller(Owner(1), held.grants[0].token)).hold_left.size(), 1u);
}

}  // namespace distlock::store
