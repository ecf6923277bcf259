// SPDX-License-Identifier: Apache-2.0
//
// Any Store: a holder that asked for it shows through which broker it is told that somebody wants its lock, and that
// broker is told.
#include "conformance.h"

namespace distlock::store {
namespace {

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";
constexpr uint64_t kA = 0xa1, kB = 0xb2;

core::StoreAcquire Telling(uint8_t owner, bool wait = false, core::Mode mode = core::Mode::kExclusive) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner), wait);
  acquire.want.mode = mode;
  acquire.tell_wanted = true;
  acquire.info = "info";
  return acquire;
}

core::StoreWanted Wanted(uint8_t owner, uint64_t token, uint64_t through) {
  return {.name = Lock("k"), .owner = Owner(owner), .token = token, .through = through};
}

}  // namespace

TEST_P(StoreConformance, AHolderShowsThroughWhichBrokerItIsToldThatItsLockIsWanted) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  for (const core::Mode mode : {core::Mode::kExclusive, core::Mode::kShared}) {
    const auto held = Do<core::AcquireGranted>(a, Telling(1, false, mode));
    const auto refused = Do<core::AcquireHeld>(b, MakeAcquire(0, Lock("k"), Owner(2)));
    ASSERT_EQ(refused.holders.size(), 1u);
    EXPECT_EQ(refused.holders[0].wanted_by, kA);
    EXPECT_EQ(refused.holders[0].info, "info");
    const auto queued = Do<core::AcquireQueued>(b, MakeAcquire(0, Lock("k"), Owner(3), true));
    ASSERT_EQ(queued.holders.size(), 1u);
    EXPECT_EQ(queued.holders[0].wanted_by, kA);
    EXPECT_EQ(queued.holders[0].token, held.token);
    const auto view = Inspect(b, Lock("k"));
    EXPECT_EQ(view->holders.at(0).info, "info");
    Do<core::GiveBackDone>(b, core::StoreWithdraw{.name = Lock("k"), .owner = Owner(3)});
    GiveBack(a, 1, held.token);
  }
}

TEST_P(StoreConformance, AHolderThatDidNotAskShowsNoBroker) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, MakeAcquire(0, Lock("k"), Owner(1)));
  EXPECT_EQ(Do<core::AcquireHeld>(a, MakeAcquire(0, Lock("k"), Owner(2))).holders.at(0).wanted_by, 0u);
}

TEST_P(StoreConformance, AWaiterThatAskedShowsItsBrokerOnceItHolds) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, MakeAcquire(0, Lock("k"), Owner(1)));
  Do<core::AcquireQueued>(b, Telling(2, true));
  EXPECT_EQ(Inspect(a, Lock("k"))->waiters.at(0).info, "info");
  GiveBack(a, 1, held.token);
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() > 0; }));
  const auto refused = Do<core::AcquireHeld>(a, MakeAcquire(0, Lock("k"), Owner(3)));
  ASSERT_EQ(refused.holders.size(), 1u);
  EXPECT_EQ(refused.holders[0].owner, Owner(2));
  EXPECT_EQ(refused.holders[0].wanted_by, kB);
}

TEST_P(StoreConformance, AHoldThatIsTakenOverShowsItsNewBroker) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  for (const bool tell_wanted : {true, false}) {
    const auto held = Do<core::AcquireGranted>(a, Telling(1));
    core::OwnerId owner{};
    owner.fill(tell_wanted ? 7 : 8);
    const auto done = Do<core::AdoptDone>(b, core::StoreAdopt{.name = Lock("k"),
                                                              .from = Owner(1),
                                                              .token = held.token,
                                                              .owner = owner,
                                                              .tell_wanted = tell_wanted,
                                                              .info = "adopted"});
    ASSERT_EQ(done.result, core::AdoptDone::Result::kAdopted);
    const auto refused = Do<core::AcquireHeld>(a, MakeAcquire(0, Lock("k"), Owner(3)));
    ASSERT_EQ(refused.holders.size(), 1u);
    EXPECT_EQ(refused.holders[0].wanted_by, tell_wanted ? kB : 0u);
    EXPECT_EQ(refused.holders[0].info, "adopted");
    Do<core::GiveBackDone>(b, core::StoreRelease{.name = Lock("k"), .owner = owner, .token = held.token});
  }
}

TEST_P(StoreConformance, AHoldersBrokerHearsThatItsLockIsWanted) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, Telling(1));
  ASSERT_TRUE(Await([&] {
    const auto done = Do<core::WantedDone>(b, Wanted(1, held.token, kA));
    EXPECT_TRUE(done.is_held);
    EXPECT_EQ(done.queue_length, 0u);
    return a.seen->Count<core::WantedNotice>() > 0;
  }));
  EXPECT_EQ(a.seen->Last<core::WantedNotice>()->name, Lock("k"));
  EXPECT_EQ(a.seen->Last<core::WantedNotice>()->owner, Owner(1));
  EXPECT_EQ(a.seen->Last<core::WantedNotice>()->token, held.token);
  EXPECT_EQ(b.seen->Count<core::WantedNotice>(), 0u);
  EXPECT_EQ(RenewAs(a, Owner(1), held.token), core::RenewResult::kRenewed) << "it is a hint";
}

TEST_P(StoreConformance, AHoldersOwnBrokerLearnsHowManyWait) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, Telling(1));
  EXPECT_EQ(Do<core::WantedDone>(a, Wanted(1, held.token, 0)).queue_length, 0u);
  Do<core::AcquireQueued>(a, MakeAcquire(0, Lock("k"), Owner(2), true));
  Do<core::AcquireQueued>(a, MakeAcquire(0, Lock("k"), Owner(3), true));
  Settle();
  const auto done = Do<core::WantedDone>(a, Wanted(1, held.token, 0));
  EXPECT_TRUE(done.is_held);
  EXPECT_EQ(done.queue_length, 2u);
  Settle();
  EXPECT_EQ(a.seen->Count<core::WantedNotice>(), 0u) << "it asked itself";
}

TEST_P(StoreConformance, AGrantThatIsOverIsNotWanted) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, Telling(1));
  EXPECT_FALSE(Do<core::WantedDone>(b, Wanted(1, held.token + 1, kA)).is_held);
  EXPECT_FALSE(Do<core::WantedDone>(b, Wanted(2, held.token, kA)).is_held);
  GiveBack(a, 1, held.token);
  Settle();
  EXPECT_FALSE(Do<core::WantedDone>(b, Wanted(1, held.token, kA)).is_held);
  EXPECT_EQ(a.seen->Count<core::WantedNotice>(), 0u);
}

}  // namespace distlock::store
