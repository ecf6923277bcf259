// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about places in the queue, and about what locks, brokers and stores have to do with
// each other.
#include "conformance.h"

namespace distlock::store {
namespace {

using std::chrono::seconds;
using Numbers = std::vector<int>;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";

core::StoreAcquire Take(uint8_t owner) { return MakeAcquire(0, Lock("k"), Owner(owner)); }
core::StoreAcquire Queue(uint8_t owner) { return MakeAcquire(0, Lock("k"), Owner(owner), true); }

}  // namespace

TEST_P(StoreConformance, WaitersAreServedInOrderOfArrival) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Take(1));
  const std::vector<uint8_t> order = {8, 3, 5, 4, 9, 2};
  for (const uint8_t owner : order) Do<core::AcquireQueued>(a, Queue(owner));
  uint8_t holder = 1;
  for (const uint8_t owner : order) {
    EXPECT_TRUE(HandsOn(a, holder, {owner}));
    holder = owner;
  }
  EXPECT_TRUE(HandsOn(a, holder, {}));
  EXPECT_EQ(HoldersOf(a), Numbers{});
}

TEST_P(StoreConformance, TheNextHolderHasItsOwnTerms) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Take(1));
  core::StoreAcquire other = Queue(2);
  other.ttl = seconds(300);
  other.lock_delay = seconds(3);
  other.info = "of the next";
  Do<core::AcquireQueued>(a, other);
  const size_t heard = a.seen->inputs.size();
  const auto released = Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(1)});
  ASSERT_TRUE(AreNext(a, heard, released.next, {2}));
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 1u);
  std::vector<core::HolderView> told = released.next;
  told.push_back(view->holders[0]);
  for (const core::HolderView& next : told) {
    EXPECT_EQ(next.owner, Owner(2));
    EXPECT_EQ(next.ttl, seconds(300));
    EXPECT_EQ(next.lock_delay, seconds(3));
  }
  EXPECT_EQ(view->holders[0].token, told[0].token);
  EXPECT_EQ(view->holders[0].since, told[0].since);
  EXPECT_EQ(view->holders[0].info, "of the next");
  EXPECT_GT(view->holders[0].time_left, seconds(200));
}

TEST_P(StoreConformance, ARepeatedAcquireOfTheHolderRefreshesItsTtl) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquire brief = Take(1);
  brief.ttl = seconds(5);
  Do<core::AcquireGranted>(a, brief);
  Do<core::AcquireGranted>(a, Queue(1));
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 1u);
  EXPECT_GT(view->holders[0].time_left, seconds(20));
}

TEST_P(StoreConformance, ARenewalMayShorten) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Take(1));
  Do<core::RenewDoneBatch>(a, core::StoreRenew{.items = {{Lock("k"), Owner(1), 0, seconds(2)}}});
  EXPECT_LE(Inspect(a, Lock("k"))->holders.at(0).time_left, seconds(2));
}

TEST_P(StoreConformance, AskingAgainKeepsThePlaceAndMovesItToTheNewBroker) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Take(1));
  Do<core::AcquireQueued>(a, Queue(2));
  Do<core::AcquireQueued>(a, Queue(3));
  const auto before = Inspect(a, Lock("k"));
  core::StoreAcquire again = Queue(2);
  again.ttl = seconds(7);
  again.info = "new";
  const auto queued = Do<core::AcquireQueued>(b, again);
  EXPECT_EQ(queued.position, 0u);
  EXPECT_EQ(queued.queue_length, 2u);
  const auto after = Inspect(a, Lock("k"));
  ASSERT_EQ(NumbersOf(after->waiters), (Numbers{2, 3}));
  EXPECT_EQ(after->waiters[0].broker_id, kBrokerB);
  EXPECT_EQ(after->waiters[0].ttl, seconds(7));
  EXPECT_EQ(after->waiters[0].info, "new");
  EXPECT_EQ(after->waiters[0].since, before->waiters[0].since);
  const core::StoreTend tend{.name = Lock("k"), .asked = {Owner(2)}};
  EXPECT_FALSE(Do<core::TendDone>(b, tend).slot_was_gone);
  EXPECT_TRUE(HandsOn(a, 1, {}));
  ASSERT_TRUE(Await([&] { return b.seen->Count<core::GrantNotice>() == 1; }));
  EXPECT_EQ(b.seen->Last<core::GrantNotice>()->owner, Owner(2));
}

TEST_P(StoreConformance, OneTryOfAWaiterLeavesItsPlace) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Take(1));
  Do<core::AcquireQueued>(a, Queue(2));
  Do<core::AcquireHeld>(a, Take(2));
  EXPECT_EQ(WaitersOf(a), Numbers{2});
}

TEST_P(StoreConformance, AFullQueueRefusesNewcomersOnly) {
  Broker a = MakeBroker(LockOptions{.broker_id = kBrokerA, .max_waiters = 2});
  Do<core::AcquireGranted>(a, Take(1));
  Do<core::AcquireQueued>(a, Queue(2));
  Do<core::AcquireQueued>(a, Queue(3));
  EXPECT_EQ(Do<core::AcquireQueueFull>(a, Queue(4)).queue_length, 2u);
  EXPECT_EQ(Do<core::AcquireQueued>(a, Queue(3)).position, 1u) << "it has its place already";
  EXPECT_EQ(WaitersOf(a), (Numbers{2, 3}));
}

TEST_P(StoreConformance, AWithdrawalThatKeepsTheGrantLeavesWhatTheRepeatHas) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const core::StoreWithdraw holder{.name = Lock("k"), .owner = Owner(1), .keep_grant = true};
  const core::StoreWithdraw waiter{.name = Lock("k"), .owner = Owner(2), .keep_grant = true};
  Do<core::AcquireGranted>(a, Take(1));
  const auto kept = Do<core::GiveBackDone>(a, holder);
  EXPECT_FALSE(kept.was_holder || kept.was_waiter);
  EXPECT_EQ(HoldersOf(a), Numbers{1});
  Do<core::AcquireQueued>(a, Queue(2));
  Do<core::AcquireQueued>(b, Queue(2));
  EXPECT_FALSE(Do<core::GiveBackDone>(a, waiter).was_waiter) << "repeated through the other broker";
  EXPECT_EQ(WaitersOf(a), Numbers{2});
  EXPECT_TRUE(Do<core::GiveBackDone>(b, waiter).was_waiter);
  EXPECT_EQ(WaitersOf(a), Numbers{});
}

TEST_P(StoreConformance, TendTellsOfAGrantThatWasNotHeard) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Take(1));
  Do<core::AcquireQueued>(a, Queue(2));
  GiveBack(a, 1);
  const auto tended = Do<core::TendDone>(a, core::StoreTend{.name = Lock("k"), .asked = {Owner(2)}});
  EXPECT_FALSE(tended.slot_was_gone) << "the last waiter has it";
  EXPECT_EQ(NumbersOf(tended.holders), Numbers{2});
  EXPECT_EQ(Do<core::AcquireGranted>(a, Queue(2)).token, tended.holders.at(0).token);
}

TEST_P(StoreConformance, LocksDoNotTouchEachOther) {
  Broker a = MakeBroker(kBrokerA);
  const std::vector<std::pair<std::string, std::string>> names = {{"default", "k"},
                                                                  {"default", "k2"},
                                                                  {"other", "k"},
                                                                  {"default", "{x}"},
                                                                  {"default", "x"},
                                                                  {"default", "\xc3\xa9 ; :h"},
                                                                  {"a", std::string(512, 'x')},
                                                                  {"default/k", "k"}};
  uint8_t owner = 0;
  for (const auto& [ns, key] : names) {
    Do<core::AcquireGranted>(a, MakeAcquire(0, core::LockName::Encode(ns, key), Owner(++owner)));
  }
  owner = 0;
  for (const auto& [ns, key] : names) {
    EXPECT_EQ(NumbersOf(Inspect(a, core::LockName::Encode(ns, key))->holders), Numbers{++owner}) << ns << " " << key;
  }
}

TEST_P(StoreConformance, StoresOfDifferentPrefixesShareNothing) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(LockOptions{.key_prefix = "team.a:locks", .broker_id = kBrokerA});
  Do<core::AcquireGranted>(a, Take(1));
  Do<core::AcquireGranted>(b, Take(2));
  Do<core::AcquireQueued>(b, Queue(3));
  EXPECT_TRUE(HandsOn(b, 2, {3}));
  EXPECT_EQ(HoldersOf(a), Numbers{1});
  EXPECT_EQ(WaitersOf(a), Numbers{});
}

TEST_P(StoreConformance, AStoreThatHasForgottenEverythingEndsEveryLease) {
  Broker a = MakeBroker(kBrokerA);
  const core::StoreRenew renew{.items = {{Lock("k"), Owner(1), 0, seconds(30)}}};
  const core::StoreRelease release{.name = Lock("k"), .owner = Owner(1)};
  const auto first = Do<core::AcquireGranted>(a, Take(1));
  Settle();
  world_->Command({"FLUSHALL"});
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, renew).results, std::vector{core::RenewResult::kGone});
  EXPECT_EQ(HoldersOf(a), Numbers{}) << "it is not made again";
  EXPECT_FALSE(Do<core::GiveBackDone>(a, release).was_holder);
  EXPECT_GT(Do<core::AcquireGranted>(a, Take(2)).token, first.token);
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, renew).results, std::vector{core::RenewResult::kAnothers});
  EXPECT_FALSE(Do<core::GiveBackDone>(a, release).was_holder);
}

}  // namespace distlock::store
