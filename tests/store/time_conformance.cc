// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about what ends by itself: holds, blocks, places in the queue, watches.
#include "conformance.h"

namespace distlock::store {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";
// More than all messages of one call take.
constexpr core::Duration kInstants = milliseconds(100);

core::StoreAcquire LongAcquire(core::OpId op, uint8_t owner, bool wait) {
  core::StoreAcquire acquire = MakeAcquire(op, Lock("k"), Owner(owner), wait);
  acquire.ttl = minutes(10);
  return acquire;
}

}  // namespace

TEST_P(StoreConformanceOverTime, AHoldLastsForItsTtlAndItsDelay) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquire wanted = MakeAcquire(1, Lock("k"), Owner(1));
  wanted.lock_delay = seconds(2);
  const auto first = AskFor<core::AcquireGranted>(a, 1, wanted);
  world_->Advance(wanted.ttl + wanted.lock_delay - kInstants);
  AskFor<core::AcquireHeld>(a, 2, MakeAcquire(2, Lock("k"), Owner(2)));
  world_->Advance(kInstants + kKeyTick);
  EXPECT_GT(AskFor<core::AcquireGranted>(a, 3, MakeAcquire(3, Lock("k"), Owner(2))).token, first.token);
}

TEST_P(StoreConformanceOverTime, ARenewalLastsFromWhenItRan) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  world_->Advance(seconds(20));
  AskFor<core::RenewDoneBatch>(a, 2, core::StoreRenew{2, {{Lock("k"), Owner(1), 0, seconds(30)}}});
  world_->Advance(seconds(30) - kInstants);
  AskFor<core::AcquireHeld>(a, 3, MakeAcquire(3, Lock("k"), Owner(2)));
  world_->Advance(kInstants + kKeyTick);
  const core::StoreRenew late{4, {{Lock("k"), Owner(1), 0, seconds(30)}}};
  EXPECT_EQ(AskFor<core::RenewDoneBatch>(a, 4, late).results, std::vector{core::RenewResult::kGone});
}

TEST_P(StoreConformanceOverTime, ARenewalEndsAtHoldUntilAndKeepsTheDelay) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquire wanted = MakeAcquire(1, Lock("k"), Owner(1));
  wanted.lock_delay = seconds(2);
  wanted.ttl = seconds(4);
  const auto first = AskFor<core::AcquireGranted>(a, 1, wanted);
  const core::StoreTime until{first.since.us + 5'000'000};
  const core::StoreRenew renew{2, {{Lock("k"), Owner(1), first.token, seconds(30), /*ours=*/false, until}}};
  EXPECT_EQ(AskFor<core::RenewDoneBatch>(a, 2, renew).results, std::vector{core::RenewResult::kRenewed});
  EXPECT_LE(Inspect(a, Lock("k"))->holders.at(0).time_left, seconds(7));
  world_->Advance(seconds(5) + kInstants);
  core::StoreRenew late = renew;
  late.op = 3;
  EXPECT_EQ(AskFor<core::RenewDoneBatch>(a, 3, late).results, std::vector{core::RenewResult::kGone});
  AskFor<core::AcquireHeld>(a, 4, MakeAcquire(4, Lock("k"), Owner(2)));
  world_->Advance(seconds(2));
  AskFor<core::AcquireGranted>(a, 5, MakeAcquire(5, Lock("k"), Owner(2)));
}

TEST_P(StoreConformanceOverTime, AFreeLockGoesToTheWaiterInFrontOfANewcomer) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  size_t notices = 0;
  for (const bool wait : {false, true}) {
    core::StoreAcquire brief = MakeAcquire(0, Lock("k"), Owner(1));
    brief.ttl = milliseconds(200);
    Do<core::AcquireGranted>(a, brief);
    Do<core::AcquireQueued>(b, LongAcquire(0, 2, true));
    world_->Advance(brief.ttl + kKeyTick);
    const core::StoreAcquire newcomer = MakeAcquire(0, Lock("k"), Owner(3), wait);
    const auto holders =
        wait ? Do<core::AcquireQueued>(a, newcomer).holders : Do<core::AcquireHeld>(a, newcomer).holders;
    EXPECT_EQ(NumbersOf(holders), std::vector<int>{2});
    ++notices;
    ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() == notices; }));
    EXPECT_EQ(b.seen->Last<core::GrantNotice>()->owner, Owner(2));
    EXPECT_EQ(WaitersOf(a), wait ? std::vector<int>{3} : std::vector<int>{});
    GiveBack(a, 2, b.seen->Last<core::GrantNotice>()->token);
  }
}

TEST_P(StoreConformanceOverTime, ABlockEndsByItself) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, LongAcquire(1, 1, false));
  AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(1), 0, seconds(20)});
  world_->Advance(seconds(20) - kInstants);
  AskFor<core::AcquireHeld>(a, 3, MakeAcquire(3, Lock("k"), Owner(1)));
  world_->Advance(kInstants + kKeyTick);
  AskFor<core::AcquireGranted>(a, 4, MakeAcquire(4, Lock("k"), Owner(2)));
}

TEST_P(StoreConformanceOverTime, AQueueThatIsTendedKeepsItsPlaces) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, LongAcquire(1, 1, false));
  AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  core::OpId op = 3;
  for (; op < 10; ++op) {
    world_->Advance(seconds(20));
    EXPECT_FALSE(AskFor<core::TendDone>(a, op, core::StoreTend{op, Lock("k"), {Owner(2)}}).slot_was_gone);
  }
  EXPECT_EQ(Inspect(a, Lock("k"))->queue_length, 1u);
  world_->Advance(seconds(31));
  EXPECT_TRUE(AskFor<core::TendDone>(a, op, core::StoreTend{op, Lock("k"), {Owner(2)}}).slot_was_gone);
  EXPECT_EQ(Inspect(a, Lock("k"))->queue_length, 0u);
}

TEST_P(StoreConformanceOverTime, WaitersOfABrokerThatIsGoneKeepTheirPlacesForAsLongAsItsSlot) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  AskFor<core::AcquireGranted>(a, 1, LongAcquire(1, 1, false));
  AskFor<core::AcquireQueued>(b, 1, MakeAcquire(1, Lock("k"), Owner(2), true));
  AskFor<core::AcquireQueued>(a, 2, LongAcquire(2, 3, true));
  AskFor<core::AcquireQueued>(a, 3, MakeAcquire(3, Lock("k"), Owner(4), true));
  b.store->Stop();
  world_->Advance(kInstants);

  const auto passed = AskFor<core::GiveBackDone>(a, 4, core::StoreRelease{4, Lock("k"), Owner(1)});
  ASSERT_EQ(passed.next.size(), 1u);
  EXPECT_EQ(passed.next[0].owner, Owner(3)) << "nobody hears for the one in front";
  const auto kept = Inspect(a, Lock("k"));
  ASSERT_EQ(kept->waiters.size(), 2u);
  EXPECT_EQ(kept->waiters[0].owner, Owner(2)) << "its broker may come back";

  world_->Advance(seconds(20));
  AskFor<core::TendDone>(a, 5, core::StoreTend{5, Lock("k"), {Owner(4)}});
  world_->Advance(seconds(11));
  const auto removed = AskFor<core::GiveBackDone>(a, 6, core::StoreRelease{6, Lock("k"), Owner(3)});
  ASSERT_EQ(removed.next.size(), 1u);
  EXPECT_EQ(removed.next[0].owner, Owner(4));
  EXPECT_EQ(Inspect(a, Lock("k"))->queue_length, 0u);
}

TEST_P(StoreConformanceOfPrimariesOverTime, AWatchLastsAsLongAsItsSlot) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto told = [&] { return b.seen->Count<core::ChangeNotice>(); };
  AskFor<core::WatchDone>(b, 1, core::StoreWatch{1, Lock("k")});
  world_->Advance(seconds(29));
  AskFor<core::AcquireGranted>(a, 1, LongAcquire(1, 1, false));
  EXPECT_TRUE(Await([&] { return told() == 1; }));
  world_->Advance(seconds(2));
  AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(1)});
  world_->Advance(kInstants);
  EXPECT_EQ(told(), 1u);
  AskFor<core::WatchDone>(b, 2, core::StoreWatch{2, Lock("k")});
  AskFor<core::AcquireGranted>(a, 3, LongAcquire(3, 1, false));
  EXPECT_TRUE(Await([&] { return told() == 2; }));
}

TEST_P(StoreConformanceOverTime, TokensGrowAlsoWhenTheLastOneIsForgotten) {
  Broker a = MakeBroker(kBrokerA);
  const auto first = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::GiveBackDone>(a, 2, core::StoreRelease{2, Lock("k"), Owner(1)});
  world_->Advance(hours(25));
  EXPECT_EQ(Inspect(a, Lock("k"))->last_token, 0u);
  EXPECT_GT(AskFor<core::AcquireGranted>(a, 3, MakeAcquire(3, Lock("k"), Owner(2))).token, first.token);
}

}  // namespace distlock::store
