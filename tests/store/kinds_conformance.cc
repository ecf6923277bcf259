// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about many holders: SHARED beside EXCLUSIVE under each policy, and PERMIT.
#include <algorithm>

#include "conformance.h"

namespace distlock::store {
namespace {

using core::Mode;
using core::Policy;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Numbers = std::vector<int>;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";
constexpr core::Duration kBrief = milliseconds(200);

core::StoreAcquire Want(uint8_t owner, core::Want want, bool wait) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner), wait);
  acquire.want = want;
  return acquire;
}
core::StoreAcquire Read(uint8_t owner, Policy policy = Policy::kFair) {
  return Want(owner, {.mode = Mode::kShared, .policy = policy}, true);
}
core::StoreAcquire Write(uint8_t owner, Policy policy = Policy::kFair) {
  return Want(owner, {.mode = Mode::kExclusive, .policy = policy}, true);
}
core::StoreAcquire Permit(uint8_t owner, uint32_t permits = 1, uint32_t limit = 3) {
  return Want(owner, {.mode = Mode::kPermit, .permits = permits, .limit = limit}, true);
}
core::StoreAcquire OneTry(core::StoreAcquire acquire) {
  acquire.wait = false;
  return acquire;
}
core::StoreAcquire For(core::Duration ttl, core::StoreAcquire acquire) {
  acquire.ttl = ttl;
  return acquire;
}
core::StoreRenew Renew(uint8_t owner) { return {.items = {{Lock("k"), Owner(owner), 0, seconds(30)}}}; }

}  // namespace

TEST_P(StoreConformance, ReadersShareAndAWriterWaitsForAllOfThem) {
  Broker a = MakeBroker(kBrokerA);
  uint64_t last = 0;
  for (const uint8_t reader : {1, 2, 3}) {
    const auto granted = Do<core::AcquireGranted>(a, Read(reader));
    EXPECT_GT(granted.token, last);
    last = granted.token;
  }
  EXPECT_EQ(HoldersOf(a), (Numbers{1, 2, 3})) << "in the order of their grants";
  const auto queued = Do<core::AcquireQueued>(a, Write(4));
  EXPECT_EQ(queued.position, 0u);
  EXPECT_EQ(NumbersOf(queued.holders), (Numbers{1, 2, 3}));
  EXPECT_TRUE(HandsOn(a, 1, {}));
  EXPECT_TRUE(HandsOn(a, 3, {}));
  EXPECT_TRUE(HandsOn(a, 2, {4}));
  EXPECT_EQ(HoldersOf(a), Numbers{4});
  Do<core::AcquireQueued>(a, Read(5));
  Do<core::AcquireQueued>(a, Write(6));
  EXPECT_TRUE(HandsOn(a, 4, {5}));
  EXPECT_TRUE(HandsOn(a, 5, {6}));
  EXPECT_TRUE(HandsOn(a, 6, {}));
  EXPECT_EQ(HoldersOf(a), Numbers{});
}

TEST_P(StoreConformance, AReaderBehindAWaitingWriterWaits) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Read(1));
  Do<core::AcquireQueued>(a, Write(2));
  Do<core::AcquireQueued>(a, Read(3));
  Do<core::AcquireHeld>(a, OneTry(Read(4)));
  EXPECT_EQ(WaitersOf(a), (Numbers{2, 3}));
}

TEST_P(StoreConformance, AFailedTryOfAWriterBlocksNobody) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Read(1));
  Do<core::AcquireHeld>(a, OneTry(Write(2)));
  Do<core::AcquireGranted>(a, Read(3));
  EXPECT_EQ(WaitersOf(a), Numbers{});
}

TEST_P(StoreConformance, NeighbouringReadersEnterTogetherWithATokenEach) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Write(1));
  Do<core::AcquireQueued>(a, Read(2));
  Do<core::AcquireQueued>(b, Read(3));
  Do<core::AcquireQueued>(a, Read(4));
  Do<core::AcquireQueued>(a, Write(5));
  Do<core::AcquireQueued>(a, Read(6));
  EXPECT_TRUE(HandsOn(a, 1, {2, 4}));
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() == 1; }));
  EXPECT_EQ(b.seen->Last<core::GrantNotice>()->owner, Owner(3));
  const auto view = Inspect(a, Lock("k"));
  const bool is_quorum = GetParam().traits.is_quorum;  // may have confirmed a reader's token again, in any order
  Numbers holders = NumbersOf(view->holders);
  const auto third = std::find(holders.begin(), holders.end(), 3) - holders.begin();
  if (is_quorum) std::sort(holders.begin(), holders.end());
  ASSERT_EQ(holders, (Numbers{2, 3, 4}));
  EXPECT_LT(view->holders[0].token, view->holders[1].token);
  EXPECT_LT(view->holders[1].token, view->holders[2].token);
  EXPECT_TRUE(view->last_token == view->holders[2].token || (is_quorum && view->last_token > view->holders[2].token));
  EXPECT_EQ(b.seen->Last<core::GrantNotice>()->token, view->holders[static_cast<size_t>(third)].token);
  EXPECT_EQ(NumbersOf(view->waiters), (Numbers{5, 6}));
}

TEST_P(StoreConformance, WritersAndReadersAreServedInOrderOfArrivalUnderFair) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Write(1));
  Do<core::AcquireQueued>(a, Read(2));
  Do<core::AcquireQueued>(a, Write(3));
  Do<core::AcquireQueued>(a, Read(4));
  Do<core::AcquireQueued>(a, Read(5));
  Do<core::AcquireQueued>(a, Write(6));
  EXPECT_TRUE(HandsOn(a, 1, {2}));
  EXPECT_TRUE(HandsOn(a, 2, {3}));
  EXPECT_TRUE(HandsOn(a, 3, {4, 5}));
  EXPECT_TRUE(HandsOn(a, 4, {}));
  EXPECT_TRUE(HandsOn(a, 5, {6}));
}

TEST_P(StoreConformance, PreferredWritersComeFirstInTheirOwnOrder) {
  Broker a = MakeBroker(kBrokerA);
  constexpr Policy kWriters = Policy::kWriterPreferring;
  Do<core::AcquireGranted>(a, Write(1, kWriters));
  Do<core::AcquireQueued>(a, Read(2, kWriters));
  Do<core::AcquireQueued>(a, Write(3, kWriters));
  Do<core::AcquireQueued>(a, Read(4, kWriters));
  Do<core::AcquireQueued>(a, Write(5, kWriters));
  EXPECT_EQ(WaitersOf(a), (Numbers{3, 5, 2, 4}));
  EXPECT_EQ(Do<core::AcquireQueued>(a, Write(3, kWriters)).position, 0u);
  EXPECT_EQ(WaitersOf(a), (Numbers{3, 5, 2, 4})) << "asking again keeps place and preference";
  EXPECT_TRUE(HandsOn(a, 1, {3}));
  EXPECT_TRUE(HandsOn(a, 3, {5}));
  EXPECT_TRUE(HandsOn(a, 5, {2, 4}));
  Do<core::AcquireQueued>(a, Write(6, kWriters));
  Do<core::AcquireQueued>(a, Read(7, kWriters));
}

TEST_P(StoreConformance, PreferredReadersPassWaitingWriters) {
  Broker a = MakeBroker(kBrokerA);
  constexpr Policy kReaders = Policy::kReaderPreferring;
  Do<core::AcquireGranted>(a, Read(1, kReaders));
  Do<core::AcquireQueued>(a, Write(2, kReaders));
  Do<core::AcquireGranted>(a, Read(3, kReaders));
  Do<core::AcquireGranted>(a, OneTry(Read(4, kReaders)));
  EXPECT_TRUE(HandsOn(a, 1, {}));
  EXPECT_TRUE(HandsOn(a, 3, {}));
  EXPECT_TRUE(HandsOn(a, 4, {2}));
  Do<core::AcquireQueued>(a, Read(5, kReaders));
  Do<core::AcquireQueued>(a, Write(6, kReaders));
  Do<core::AcquireQueued>(a, Read(7, kReaders));
  EXPECT_EQ(WaitersOf(a), (Numbers{5, 7, 6}));
  EXPECT_TRUE(HandsOn(a, 2, {5, 7}));
}

TEST_P(StoreConformance, AWriterThatLeavesLetsTheReadersBehindItIn) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Read(1));
  Do<core::AcquireQueued>(a, Write(2));
  Do<core::AcquireQueued>(a, Read(3));
  Do<core::AcquireQueued>(b, Read(4));
  Do<core::AcquireQueued>(a, Write(5));
  const size_t heard = a.seen->inputs.size();
  const auto left = Do<core::GiveBackDone>(a, core::StoreWithdraw{.name = Lock("k"), .owner = Owner(2)});
  EXPECT_TRUE(left.was_waiter);
  EXPECT_TRUE(AreNext(a, heard, left.next, {3}));
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() == 1; }));
  EXPECT_EQ(b.seen->Last<core::GrantNotice>()->owner, Owner(4));
  EXPECT_EQ(HoldersOf(a), (Numbers{1, 3, 4}));
  EXPECT_EQ(WaitersOf(a), Numbers{5});
}

TEST_P(StoreConformance, AReaderThatAsksAgainHasTheSameGrantAndNoOtherKindOfHold) {
  Broker a = MakeBroker(kBrokerA);
  const auto first = Do<core::AcquireGranted>(a, For(seconds(5), Read(1)));
  Do<core::AcquireGranted>(a, Read(2));
  const auto again = Do<core::AcquireGranted>(a, For(seconds(60), Read(1)));
  EXPECT_EQ(again.token, first.token);
  EXPECT_EQ(again.since, first.since);
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(NumbersOf(view->holders), (Numbers{1, 2}));
  EXPECT_GT(view->holders[0].time_left, seconds(50));
  const auto other = Do<core::AcquireMismatch>(a, Write(1));
  EXPECT_EQ(other.mode, Mode::kShared);
}

TEST_P(StoreConformance, AReaderGivesBackOnceAndOnlyItsOwn) {
  Broker a = MakeBroker(kBrokerA);
  const auto first = Do<core::AcquireGranted>(a, Read(1));
  Do<core::AcquireGranted>(a, Read(2));
  const auto release = [&](uint8_t owner, uint64_t token) {
    const core::StoreRelease command{.name = Lock("k"), .owner = Owner(owner), .token = token};
    return Do<core::GiveBackDone>(a, command).was_holder;
  };
  EXPECT_FALSE(release(3, 0));
  EXPECT_FALSE(release(1, first.token + 1)) << "another grant";
  EXPECT_EQ(HoldersOf(a), (Numbers{1, 2}));
  EXPECT_TRUE(release(1, first.token));
  EXPECT_FALSE(release(1, first.token));
  EXPECT_EQ(HoldersOf(a), Numbers{2});
}

TEST_P(StoreConformance, NeverMorePermitsThanTheLimit) {
  Broker a = MakeBroker(kBrokerA);
  for (const uint8_t owner : {1, 2, 3}) Do<core::AcquireGranted>(a, Permit(owner));
  Do<core::AcquireHeld>(a, OneTry(Permit(4)));
  Do<core::AcquireQueued>(a, Permit(5));
  EXPECT_TRUE(HandsOn(a, 2, {5}));
  EXPECT_EQ(HoldersOf(a), (Numbers{1, 3, 5}));
}

TEST_P(StoreConformance, WeightedPermitsAreServedInOrderOfArrival) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Permit(1, 3, 5));
  Do<core::AcquireGranted>(a, Permit(2, 2, 5));
  Do<core::AcquireQueued>(a, Permit(3, 4, 5));
  Do<core::AcquireQueued>(a, Permit(4, 1, 5));
  EXPECT_TRUE(HandsOn(a, 2, {})) << "a small one does not pass the big one in front";
  Do<core::AcquireHeld>(a, OneTry(Permit(5, 1, 5)));
  EXPECT_TRUE(HandsOn(a, 1, {3, 4}));
  Do<core::AcquireHeld>(a, OneTry(Permit(5, 1, 5)));
}

TEST_P(StoreConformanceOfPermits, ABigPermitThatLeavesLetsThoseBehindItIn) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Permit(1, 2, 3));
  Do<core::AcquireQueued>(a, Permit(2, 2, 3));
  Do<core::AcquireQueued>(a, Permit(3, 1, 3));
  const auto left = Do<core::GiveBackDone>(a, core::StoreWithdraw{.name = Lock("k"), .owner = Owner(2)});
  EXPECT_EQ(NumbersOf(left.next), Numbers{3});
}

TEST_P(StoreConformanceOfPermits, LimitsAndModesDoNotMix) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Permit(1, 1, 3));
  for (const core::StoreAcquire& wanted : {Permit(2, 1, 4), Write(2), Read(2)}) {
    const auto mismatch = Do<core::AcquireMismatch>(a, OneTry(wanted));
    EXPECT_EQ(mismatch.mode, Mode::kPermit);
    EXPECT_EQ(mismatch.limit, 3u);
  }
  EXPECT_EQ(Do<core::AcquireMismatch>(a, Write(1)).mode, Mode::kPermit) << "its own hold, which it would wait for";
  GiveBack(a, 1);
  Do<core::AcquireGranted>(a, Write(1));
  EXPECT_EQ(Do<core::AcquireMismatch>(a, OneTry(Permit(2))).mode, Mode::kExclusive);
  EXPECT_EQ(WaitersOf(a), Numbers{});
  GiveBack(a, 1);
  Do<core::AcquireGranted>(a, Permit(2, 1, 9));
}

TEST_P(StoreConformanceOfPermits, WhoDoesNotMixWaitsUntilTheHoldersAreGone) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Permit(1, 1, 3));
  Do<core::AcquireGranted>(a, Permit(2, 1, 3));
  Do<core::AcquireQueued>(a, Permit(3, 1, 4));
  Do<core::AcquireQueued>(a, Permit(4, 4, 4));
  Do<core::AcquireQueued>(a, Write(5));
  Do<core::AcquireQueued>(a, Permit(6, 1, 3));
  Do<core::AcquireHeld>(a, OneTry(Permit(7, 1, 3)));
  EXPECT_TRUE(HandsOn(a, 1, {})) << "not all of them are gone";
  EXPECT_TRUE(HandsOn(a, 2, {3})) << "the new limit is 4, and 4 does not fit beside it";
  EXPECT_EQ(Do<core::AcquireMismatch>(a, OneTry(Permit(7, 1, 3))).limit, 4u);
  EXPECT_TRUE(HandsOn(a, 3, {4}));
  EXPECT_TRUE(HandsOn(a, 4, {5}));
  EXPECT_TRUE(HandsOn(a, 5, {6}));
  EXPECT_EQ(WaitersOf(a), Numbers{});
}

TEST_P(StoreConformance, RenewalsOfManyHoldersAreEachTheirOwn) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, For(seconds(5), Permit(1, 2)));
  Do<core::AcquireGranted>(a, For(seconds(5), Permit(2)));
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, Renew(1)).results, std::vector{core::RenewResult::kRenewed});
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, Renew(3)).results, std::vector{core::RenewResult::kAnothers});
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(NumbersOf(view->holders), (Numbers{1, 2}));
  EXPECT_GT(view->holders[0].time_left, seconds(20));
  EXPECT_LE(view->holders[1].time_left, seconds(5));
  Do<core::AcquireHeld>(a, OneTry(Permit(3)));
}

TEST_P(StoreConformanceOverTime, AReadersShorterRenewalLeavesTheOthersHolds) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, For(kBrief, Read(1)));
  Do<core::AcquireGranted>(a, Read(2));
  core::StoreRenew brief = Renew(1);
  brief.items[0].ttl = kBrief;
  Do<core::RenewDoneBatch>(a, brief);
  world_->Advance(kBrief + kKeyTick);
  EXPECT_EQ(HoldersOf(a), Numbers{2});
}

TEST_P(StoreConformanceOfPrimariesOverTime, AdaptiveNewcomersTakeAFreeLockUntilAWaiterHasWaitedForLong) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  constexpr Policy kAdaptive = Policy::kAdaptive;
  Do<core::AcquireGranted>(a, Write(1, kAdaptive));
  Do<core::AcquireQueued>(b, Write(2, kAdaptive));
  EXPECT_TRUE(HandsOn(a, 1, {}));
  EXPECT_EQ(HoldersOf(a), Numbers{}) << "left free, and the first waiter's broker invited";
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() == 1; }));
  EXPECT_EQ(b.seen->Last<core::GrantNotice>()->owner, core::OwnerId{});
  Do<core::AcquireGranted>(a, OneTry(Write(3, kAdaptive)));
  Do<core::AcquireQueued>(a, Write(4, kAdaptive));
  world_->Advance(milliseconds(200));
  EXPECT_TRUE(HandsOn(a, 3, {}));
  EXPECT_EQ(HoldersOf(a), Numbers{2}) << "it has waited for long";
  Do<core::AcquireHeld>(a, OneTry(Write(3, kAdaptive)));
  EXPECT_TRUE(HandsOn(a, 2, {4})) << "fair until nobody waits";
}

TEST_P(StoreConformanceOverTime, AReaderWhoseHoldEndedNeitherHoldsNorBlocks) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, For(kBrief, Read(1)));
  Do<core::AcquireGranted>(a, Read(2));
  Do<core::AcquireQueued>(a, Write(3));
  world_->Advance(kBrief + kKeyTick);
  EXPECT_EQ(HoldersOf(a), Numbers{2});
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, Renew(1)).results, std::vector{core::RenewResult::kAnothers});
  EXPECT_EQ(HoldersOf(a), Numbers{2}) << "what has ended is not made again";
  Do<core::AcquireHeld>(a, OneTry(Write(4)));
  EXPECT_TRUE(HandsOn(a, 2, {3}));
}

TEST_P(StoreConformanceOverTime, AReaderWhoseHoldEndedMayComeAgain) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, For(kBrief, Read(1)));
  Do<core::AcquireGranted>(a, Read(2));
  world_->Advance(kBrief + kKeyTick);
  Do<core::AcquireGranted>(a, Read(1));
  EXPECT_EQ(HoldersOf(a), (Numbers{2, 1}));
  Do<core::AcquireQueued>(a, Write(3));
  EXPECT_TRUE(HandsOn(a, 2, {}));
  EXPECT_TRUE(HandsOn(a, 1, {3}));
}

TEST_P(StoreConformanceOverTime, WhenTheHoldsOfAllReadersEndedTheWriterIsNext) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, For(kBrief, Read(1)));
  Do<core::AcquireGranted>(a, For(2 * kBrief, Read(2)));
  Do<core::AcquireQueued>(a, Write(3));
  const core::StoreTend tend{.name = Lock("k"), .asked = {Owner(3)}};
  const auto early = Do<core::TendDone>(a, tend);
  EXPECT_TRUE(early.holders.empty());
  ASSERT_TRUE(early.left);
  EXPECT_LE(*early.left, 2 * kBrief);
  world_->Advance(2 * kBrief + kKeyTick);
  EXPECT_EQ(NumbersOf(Do<core::TendDone>(a, tend).holders), Numbers{3});
  EXPECT_EQ(HoldersOf(a), Numbers{3});
}

TEST_P(StoreConformanceOverTime, PermitsComeBackWhenTheirHoldEnds) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, For(kBrief, Permit(1, 2)));
  Do<core::AcquireGranted>(a, Permit(2));
  Do<core::AcquireQueued>(a, Permit(3, 2));
  const core::StoreTend tend{.name = Lock("k"), .asked = {Owner(3)}};
  const auto early = Do<core::TendDone>(a, tend);
  ASSERT_TRUE(early.left);
  EXPECT_LE(*early.left, kBrief) << "to be looked at when the first of them ends";
  world_->Advance(kBrief + kKeyTick);
  EXPECT_EQ(NumbersOf(Do<core::TendDone>(a, tend).holders), Numbers{3});
  EXPECT_EQ(HoldersOf(a), (Numbers{2, 3}));
}

TEST_P(StoreConformanceOverTime, ABlockedShareKeepsOthersOutForTheDelay) {
  Broker a = MakeBroker(kBrokerA);
  const core::StoreRelease block{.name = Lock("k"), .owner = Owner(1), .block = kBrief};
  const core::StoreTend tend{.name = Lock("k"), .asked = {Owner(3)}};
  for (const auto& [one, next] : {std::pair(Read(1), Write(3)), std::pair(Permit(1), Permit(3, 3))}) {
    core::StoreAcquire two = one;
    two.owner = Owner(2);
    Do<core::AcquireGranted>(a, one);
    Do<core::AcquireGranted>(a, two);
    Do<core::AcquireQueued>(a, next);
    EXPECT_TRUE(Do<core::GiveBackDone>(a, block).was_holder);
    EXPECT_EQ(Do<core::RenewDoneBatch>(a, Renew(1)).results, std::vector{core::RenewResult::kAnothers});
    EXPECT_FALSE(Do<core::GiveBackDone>(a, block).was_holder);
    const auto view = Inspect(a, Lock("k"));
    EXPECT_EQ(view->holder_count, 1u) << "a block is no holder";
    EXPECT_EQ(NumbersOf(view->holders), (Numbers{0, 2})) << "the block first";
    EXPECT_TRUE(HandsOn(a, 2, {}));
    const auto early = Do<core::TendDone>(a, tend);
    EXPECT_TRUE(early.holders.empty());
    ASSERT_TRUE(early.left);
    EXPECT_LE(*early.left, kBrief);
    world_->Advance(kBrief + kKeyTick);
    EXPECT_EQ(NumbersOf(Do<core::TendDone>(a, tend).holders), Numbers{3});
    EXPECT_TRUE(HandsOn(a, 3, {}));
  }
}

}  // namespace distlock::store
