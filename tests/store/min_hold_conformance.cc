// SPDX-License-Identifier: Apache-2.0
//
// Any Store: a release that comes before the min_hold leaves the lock blocked until then, by the store's own record.
#include "conformance.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Numbers = std::vector<int>;

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";
constexpr core::Duration kMinHold = seconds(20);
constexpr core::Duration kTick = milliseconds(20);  // by which servers' clocks and stamps may differ

core::StoreAcquire OncePer(uint8_t owner) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner));
  acquire.min_hold = kMinHold;
  return acquire;
}

core::StoreAcquire Waiting(uint8_t owner) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner));
  acquire.wait = true;
  return acquire;
}

core::StoreRelease ReleaseOf(uint8_t owner, uint64_t token) {
  return {.name = Lock("k"), .owner = Owner(owner), .token = token};
}

}  // namespace

TEST_P(StoreConformance, AReleaseBeforeItsMinHoldLeavesTheLockBlocked) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, OncePer(1));
  const auto released = Do<core::GiveBackDone>(a, ReleaseOf(1, held.token));
  EXPECT_TRUE(released.was_holder);
  EXPECT_TRUE(released.next.empty());
  EXPECT_GT(released.blocked_for, kMinHold - seconds(5));
  EXPECT_LE(released.blocked_for, kMinHold);
  Settle();
  EXPECT_EQ(HoldersOf(a), Numbers{0});
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 1u);
  EXPECT_EQ(view->holder_count, 0u);
  EXPECT_EQ(view->holders[0].min_hold, kMinHold);
  EXPECT_EQ(view->holders[0].info, OncePer(1).info) << "who ran is shown";
  EXPECT_EQ(view->holders[0].token, held.token);
  Do<core::AcquireHeld>(a, MakeAcquire(0, Lock("k"), Owner(2)));
  EXPECT_FALSE(Do<core::GiveBackDone>(a, ReleaseOf(1, held.token)).was_holder);
}

TEST_P(StoreConformance, AnotherBrokersReleaseKnowsItToo) {
  Broker a = MakeBroker(kBrokerA), b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, OncePer(1));
  Settle();
  EXPECT_GT(Do<core::GiveBackDone>(b, ReleaseOf(1, held.token)).blocked_for, kMinHold - seconds(5));
}

TEST_P(StoreConformance, AnEndThatEndsTheMinHoldHandsOn) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, OncePer(1));
  Do<core::AcquireQueued>(a, Waiting(2));
  core::StoreRelease release = ReleaseOf(1, held.token);
  release.ends_min_hold = true;
  const size_t heard = a.seen->inputs.size();
  const auto released = Do<core::GiveBackDone>(a, release);
  EXPECT_EQ(released.blocked_for, core::Duration::zero());
  EXPECT_TRUE(AreNext(a, heard, released.next, {2}));
}

TEST_P(StoreConformance, AWithdrawalIsNoReason) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, OncePer(1));
  Do<core::AcquireQueued>(a, Waiting(2));
  const size_t heard = a.seen->inputs.size();
  const auto done = Do<core::GiveBackDone>(a, core::StoreWithdraw{.name = Lock("k"), .owner = Owner(1)});
  EXPECT_TRUE(AreNext(a, heard, done.next, {2}));
}

TEST_P(StoreConformance, ALockDelayStandsForTheMinHold) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, OncePer(1));
  core::StoreRelease release = ReleaseOf(1, held.token);
  release.block = seconds(5);
  EXPECT_EQ(Do<core::GiveBackDone>(a, release).blocked_for, seconds(5));
  Settle();
  EXPECT_EQ(Inspect(a, Lock("k"))->holders.at(0).min_hold, core::Duration::zero());
}

TEST_P(StoreConformance, AnAdoptionKeepsTheMinHold) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, OncePer(1));
  Settle();
  const auto adopted = Do<core::AdoptDone>(a, core::StoreAdopt{.name = Lock("k"),
                                                               .from = Owner(1),
                                                               .token = held.token,
                                                               .owner = Owner(7),
                                                               .want = OncePer(1).want,
                                                               .info = "adopted"});
  EXPECT_EQ(adopted.min_hold, kMinHold);
  EXPECT_GT(Do<core::GiveBackDone>(a, ReleaseOf(7, held.token)).blocked_for, kMinHold - seconds(5));
}

TEST_P(StoreConformance, ForceEndsABlock) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, OncePer(1));
  Do<core::AcquireQueued>(a, Waiting(2));
  Do<core::GiveBackDone>(a, ReleaseOf(1, held.token));
  Settle();
  const size_t heard = a.seen->inputs.size();
  const auto forced = Do<core::ForceDone>(
      a, core::StoreForce{.name = Lock("k"), .owner = {}, .token = held.token, .broker_id = kBrokerB, .reason = "why"});
  EXPECT_EQ(forced.result, core::ForceDone::Result::kReleased);
  EXPECT_TRUE(AreNext(a, heard, forced.next, {2}));
}

TEST_P(StoreConformanceOverTime, AWaiterIsServedWhenTheMinHoldIsOver) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquire acquire = OncePer(1);
  acquire.ttl = seconds(60);
  const auto held = Do<core::AcquireGranted>(a, acquire);
  const core::StoreTend tend{.name = Lock("k"), .asked = {Owner(2)}};
  Do<core::AcquireQueued>(a, Waiting(2));
  world_->Advance(seconds(8));
  const auto released = Do<core::GiveBackDone>(a, ReleaseOf(1, held.token));
  EXPECT_LE(released.blocked_for, kMinHold - seconds(8) + kTick) << "it counts from the grant";
  EXPECT_GT(released.blocked_for, kMinHold - seconds(9));
  world_->Advance(released.blocked_for - seconds(1));
  EXPECT_EQ(NumbersOf(Do<core::TendDone>(a, tend).holders), Numbers{0});
  world_->Advance(seconds(1) + kTick);
  EXPECT_EQ(NumbersOf(Do<core::TendDone>(a, tend).holders), Numbers{2});
}

TEST_P(StoreConformanceOverTime, AReleaseAfterTheMinHoldFreesTheLock) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquire acquire = OncePer(1);
  acquire.ttl = seconds(60);
  const auto held = Do<core::AcquireGranted>(a, acquire);
  Do<core::AcquireQueued>(a, Waiting(2));
  world_->Advance(kMinHold + kTick);
  const size_t heard = a.seen->inputs.size();
  const auto released = Do<core::GiveBackDone>(a, ReleaseOf(1, held.token));
  EXPECT_EQ(released.blocked_for, core::Duration::zero());
  EXPECT_TRUE(AreNext(a, heard, released.next, {2}));
}

}  // namespace distlock::store
