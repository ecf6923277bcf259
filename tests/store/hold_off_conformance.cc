// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about a store which may have forgotten who holds what.
#include "conformance.h"

namespace distlock::store {
namespace {

using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";
constexpr core::Duration kHoldOff = seconds(60);

LockOptions With(const std::string& broker_id, core::Duration hold_off) {
  return {.broker_id = broker_id, .hold_off = {.kind = HoldOffOptions::Kind::kFixed, .fixed = hold_off}};
}

}  // namespace

TEST_P(StoreConformanceOfPrimaries, AServerThatIsNewGrantsNobodyALock) {
  Broker a = MakeBroker(With(kBrokerA, kHoldOff));
  const auto queued = AskFor<core::AcquireQueued>(a, 1, MakeAcquire(1, Lock("k"), Owner(1), true));
  EXPECT_TRUE(queued.holders.empty());
  ASSERT_TRUE(queued.left.has_value());
  EXPECT_GT(*queued.left, kHoldOff / 2);
  EXPECT_LE(*queued.left, kHoldOff);
  EXPECT_LT(std::chrono::abs(queued.held_off - *queued.left), seconds(1));
  const auto held = AskFor<core::AcquireHeld>(a, 2, MakeAcquire(2, Lock("free"), Owner(2)));
  EXPECT_TRUE(held.holders.empty() && held.left.has_value());
  EXPECT_GT(held.held_off, kHoldOff / 2);
  EXPECT_LE(held.held_off, kHoldOff);
  const auto tended = AskFor<core::TendDone>(a, 3, core::StoreTend{3, Lock("k"), {Owner(1)}});
  EXPECT_TRUE(tended.holders.empty() && !tended.more && tended.left.has_value());
  Broker b = MakeBroker(With(kBrokerB, kHoldOff));
  AskFor<core::AcquireHeld>(b, 1, MakeAcquire(1, Lock("free"), Owner(5)));
}

// The holder of a lock is in the way, unless one could join him.
TEST_P(StoreConformanceOfPrimaries, OnlyWhoWouldFitIsToldOfTheHoldOff) {
  Broker before = MakeBroker(kBrokerB);  // without hold-offs
  Do<core::AcquireGranted>(before, MakeAcquire(0, Lock("written"), Owner(1)));
  const auto reads = [](const char* key, uint8_t owner) {
    core::StoreAcquire reader = MakeAcquire(0, Lock(key), Owner(owner));
    reader.want.mode = core::Mode::kShared;
    return reader;
  };
  Do<core::AcquireGranted>(before, reads("read", 2));
  Broker a = MakeBroker(With(kBrokerA, kHoldOff));
  for (const auto& [ask, is_held_off] : {std::pair(MakeAcquire(0, Lock("written"), Owner(3)), false),
                                         {reads("written", 4), false},
                                         {MakeAcquire(0, Lock("read"), Owner(5)), false},
                                         {reads("read", 6), true}}) {
    const auto held = Do<core::AcquireHeld>(a, ask);
    EXPECT_EQ(held.held_off > core::Duration::zero(), is_held_off) << ask.name.escaped();
    EXPECT_EQ(held.holders.empty(), is_held_off) << ask.name.escaped();
  }
}

TEST_P(StoreConformanceOfOneServer, AServerThatIsNewGrantsNobodySeveralLocks) {
  Broker a = MakeBroker(With(kBrokerA, kHoldOff));
  core::StoreAcquireAll both{.op = 1,
                             .items = {MakeAcquire(0, Lock("x"), Owner(3)), MakeAcquire(0, Lock("y"), Owner(4))}};
  EXPECT_TRUE(AskFor<core::AcquireAllDone>(a, 1, both).grants.empty());
}

// A holder from before. Who waits may have to wait for somebody whom the server has forgotten.
TEST_P(StoreConformanceOfPrimaries, HoldersGoOnAndHandOnNothing) {
  Broker before = MakeBroker(kBrokerB);  // without hold-offs
  const auto first = Do<core::AcquireGranted>(before, MakeAcquire(0, Lock("k"), Owner(1)));
  const auto other = Do<core::AcquireGranted>(before, MakeAcquire(0, Lock("other"), Owner(7)));
  Broker a = MakeBroker(With(kBrokerA, kHoldOff));
  Do<core::AcquireQueued>(a, MakeAcquire(0, Lock("k"), Owner(2), true));
  core::StoreAcquire reader = MakeAcquire(0, Lock("other"), Owner(8), true);
  reader.want.mode = core::Mode::kShared;
  Do<core::AcquireQueued>(a, reader);
  Do<core::AdoptDone>(a,
                      core::StoreAdopt{.name = Lock("k"), .from = Owner(1), .token = first.token, .owner = Owner(3)});
  const core::RenewItem item{.name = Lock("k"), .owner = Owner(3), .token = first.token, .ttl = seconds(30)};
  const auto renewed = Do<core::RenewDoneBatch>(a, core::StoreRenew{0, {item}});
  EXPECT_EQ(renewed.results, std::vector{core::RenewResult::kRenewed});
  const auto freed =
      Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(3), .token = first.token});
  EXPECT_TRUE(freed.was_holder && freed.next.empty());
  Do<core::AcquireHeld>(a, MakeAcquire(0, Lock("k"), Owner(4)));
  const auto shared =
      Do<core::DowngradeDone>(a, core::StoreDowngrade{.name = Lock("other"), .owner = Owner(7), .token = other.token});
  EXPECT_EQ(shared.result, core::DowngradeDone::Result::kDowngraded);
  EXPECT_TRUE(shared.next.empty());
}

TEST_P(StoreConformanceOfPrimariesOverTime, AFreeLockIsGrantedAfterTheHoldOff) {
  Broker a = MakeBroker(With(kBrokerA, kHoldOff));
  const auto queued = AskFor<core::AcquireQueued>(a, 1, MakeAcquire(1, Lock("k"), Owner(1), true));
  core::Duration waited{};
  for (core::OpId op = 2; waited < *queued.left - seconds(5); waited += seconds(5)) {
    world_->Advance(seconds(5));
    EXPECT_TRUE(AskFor<core::TendDone>(a, op, core::StoreTend{op, Lock("k"), {Owner(1)}}).holders.empty());
    ++op;
  }
  world_->Advance(*queued.left - waited);
  const auto tended = AskFor<core::TendDone>(a, 100, core::StoreTend{100, Lock("k"), {Owner(1)}});
  EXPECT_EQ(NumbersOf(tended.holders), std::vector{1});
  // Another broker finds since when this server has all its data.
  Broker b = MakeBroker(With(kBrokerB, kHoldOff));
  AskFor<core::AcquireGranted>(b, 1, MakeAcquire(1, Lock("free"), Owner(2)));
}

}  // namespace distlock::store
