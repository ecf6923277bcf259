// SPDX-License-Identifier: Apache-2.0
//
// Any Store: several locks by one command, EXCLUSIVE that becomes SHARED, a lock that is taken from its holder.
#include "conformance.h"
#include "core/limits.h"

namespace distlock::store {
namespace {

using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";

core::StoreAcquireAll All(core::OpId op, const std::vector<std::string>& keys, uint8_t first_owner) {
  core::StoreAcquireAll all{.op = op, .items = {}};
  for (size_t i = 0; i < keys.size(); ++i) {
    all.items.push_back(MakeAcquire(0, Lock(keys[i]), Owner(static_cast<uint8_t>(first_owner + i))));
  }
  return all;
}

core::StoreAcquire Permit(uint8_t owner, uint32_t permits) {
  core::StoreAcquire permit = MakeAcquire(0, Lock("k"), Owner(owner), true);
  permit.want = {.mode = core::Mode::kPermit, .permits = permits, .limit = 3};
  return permit;
}

core::StoreDowngrade Downgrade(uint8_t owner, uint64_t token = 0) {
  return {.name = Lock("k"), .owner = Owner(owner), .token = token};
}

core::StoreForce Force(uint8_t owner, const std::string& through, uint64_t token = 0) {
  return {.name = Lock("k"), .owner = Owner(owner), .token = token, .broker_id = through, .reason = "why"};
}

core::StoreAcquire Reader(core::OpId op, const std::string& key, uint8_t owner, bool wait) {
  core::StoreAcquire reader = MakeAcquire(op, Lock(key), Owner(owner));
  reader.want.mode = core::Mode::kShared;
  reader.wait = wait;
  return reader;
}

}  // namespace

TEST_P(StoreConformanceOfOneServer, TakesSeveralThatAreFreeOrNone) {
  Broker a = MakeBroker(kBrokerA);
  const auto done = AskFor<core::AcquireAllDone>(a, 1, All(1, {"a", "b", "c"}, 1));
  ASSERT_EQ(done.grants.size(), 3u);
  EXPECT_EQ(Inspect(a, Lock("b"))->holders.at(0).token, done.grants[1].token);
  const auto none = AskFor<core::AcquireAllDone>(a, 2, All(2, {"d", "b", "e"}, 4));
  EXPECT_TRUE(none.grants.empty());
  EXPECT_TRUE(Inspect(a, Lock("d"))->holders.empty());
  core::StoreAcquireAll late = All(3, {"d", "e"}, 7);
  late.run_before = core::Instant(std::chrono::seconds(1));
  AskFor<core::AcquireLate>(a, 3, late);
}

TEST_P(StoreConformance, ADowngradedHolderSharesWithTheReadersThatWaitInFront) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(a, 2, Reader(2, "k", 2, true));
  core::StoreAcquire writer = MakeAcquire(3, Lock("k"), Owner(3));
  writer.wait = true;
  AskFor<core::AcquireQueued>(a, 3, writer);
  for (const core::OpId op : {core::OpId{4}, core::OpId{5}}) {
    const size_t heard = a.seen->inputs.size();
    const auto done = AskFor<core::DowngradeDone>(
        a, op, core::StoreDowngrade{.op = op, .name = Lock("k"), .owner = Owner(1), .token = held.token, .info = {}});
    EXPECT_EQ(done.result, core::DowngradeDone::Result::kDowngraded);
    ASSERT_TRUE(AreNext(a, heard, done.next, op == 4 ? std::vector{2} : std::vector<int>{})) << "again changes nothing";
  }
  const auto view = Inspect(a, Lock("k"));
  EXPECT_EQ(view->holder_count, 2u);
  EXPECT_EQ(view->queue_length, 1u) << "the writer goes on waiting";
  const auto strange = AskFor<core::DowngradeDone>(
      a, 6, core::StoreDowngrade{.op = 6, .name = Lock("k"), .owner = Owner(9), .info = {}});
  EXPECT_EQ(strange.result, core::DowngradeDone::Result::kNotHolder);
}

TEST_P(StoreConformance, AHoldWhoseStreamIsElsewhereIsNotDowngraded) {
  using Result = core::DowngradeDone::Result;
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = Do<core::AcquireGranted>(a, MakeAcquire(0, Lock("k"), Owner(1)));
  Do<core::AcquireQueued>(b, Reader(0, "k", 2, true));
  core::StoreDowngrade downgrade{
      .name = Lock("k"), .owner = Owner(1), .token = held.token, .info = {}, .elsewhere = true};
  EXPECT_EQ(Do<core::DowngradeDone>(b, downgrade).result, Result::kElsewhere);
  EXPECT_EQ(Inspect(b, Lock("k"))->holder_count, 1u);
  Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(1), .token = held.token});
  EXPECT_EQ(Do<core::DowngradeDone>(b, downgrade).result, Result::kNotHolder);
}

TEST_P(StoreConformance, WhoIsForcedIsToldThroughItsBrokerOrReleased) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto held = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  const auto force = [&](Broker& by, core::OpId op, const std::string& through, uint64_t token) {
    return AskFor<core::ForceDone>(by, op, core::StoreForce{op, Lock("k"), Owner(1), token, through, "why; so"}).result;
  };
  using Result = core::ForceDone::Result;
  EXPECT_EQ(force(b, 1, kBrokerA, held.token + 1), Result::kGone) << "another grant";
  ASSERT_TRUE(Await([&] { return force(b, 2 + b.seen->inputs.size(), kBrokerA, held.token) == Result::kTold; }));
  ASSERT_TRUE(Await([&] { return a.seen->Count<core::ForceNotice>() > 0; }));
  EXPECT_EQ(a.seen->Last<core::ForceNotice>()->owner, Owner(1));
  EXPECT_EQ(a.seen->Last<core::ForceNotice>()->token, held.token);
  EXPECT_EQ(a.seen->Last<core::ForceNotice>()->reason, "why; so");
  EXPECT_EQ(Inspect(b, Lock("k"))->holder_count, 1u) << "its broker knows when it may go";
  EXPECT_EQ(force(a, 1000, kBrokerA, held.token), Result::kReleased) << "and says so itself when it has no such lease";
  EXPECT_EQ(Inspect(b, Lock("k"))->holder_count, 0u);
}

TEST_P(StoreConformanceOfOneServer, SeveralOfWhichOneIsNotFreeLeaveAllAlone) {
  Broker a = MakeBroker(kBrokerA);
  const std::vector<std::string> keys = {"a", "b", "c"};
  for (size_t taken = 0; taken < keys.size(); ++taken) {
    for (const uint8_t owner : {uint8_t{9}, static_cast<uint8_t>(1 + taken)}) {  // a stranger, and who asks
      const core::LockName name = Lock(keys[taken]);
      const auto held = Do<core::AcquireGranted>(a, MakeAcquire(0, name, Owner(owner)));
      EXPECT_TRUE(Do<core::AcquireAllDone>(a, All(0, keys, 1)).grants.empty());
      for (const std::string& key : keys) {
        const auto view = Inspect(a, Lock(key));
        EXPECT_EQ(view->holder_count, key == keys[taken] ? 1u : 0u) << key;
      }
      EXPECT_EQ(Inspect(a, name)->last_token, held.token);
      Do<core::GiveBackDone>(a, core::StoreRelease{.name = name, .owner = Owner(owner)});
    }
  }
}

TEST_P(StoreConformanceOfOneServer, SeveralAreTakenAsOneByOne) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquireAll all = All(0, {"a", "k"}, 1);
  all.items[0].ttl = seconds(200);
  all.items[0].lock_delay = seconds(2);
  all.items[0].want.mode = core::Mode::kShared;
  all.items[1].want = {.mode = core::Mode::kPermit, .permits = 2, .limit = 3};
  const auto done = Do<core::AcquireAllDone>(a, all);
  ASSERT_EQ(done.grants.size(), 2u);
  const auto view = Inspect(a, Lock("a"));
  ASSERT_EQ(view->holders.size(), 1u);
  EXPECT_EQ(view->holders[0].since, done.grants[0].since);
  EXPECT_EQ(view->holders[0].ttl, seconds(200));
  EXPECT_EQ(view->holders[0].lock_delay, seconds(2));
  EXPECT_EQ(view->holders[0].info, all.items[0].info);
  EXPECT_GT(view->holders[0].time_left, seconds(190));
  EXPECT_TRUE(Do<core::AcquireAllDone>(a, All(0, {"b", "a"}, 5)).grants.empty()) << "a reader has it";
  Do<core::AcquireGranted>(a, Reader(0, "a", 8, false));
  Do<core::AcquireGranted>(a, Permit(8, 1));
  Do<core::AcquireQueued>(a, Permit(9, 1));
}

TEST_P(StoreConformanceOfOneServer, TokensOfSeveralGrow) {
  Broker a = MakeBroker(kBrokerA);
  std::vector<std::string> keys(core::kMaxTogether);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = std::to_string(i);
  std::vector<uint64_t> last(keys.size(), 0);
  for (int round = 0; round < 3; ++round) {
    const auto done = Do<core::AcquireAllDone>(a, All(0, keys, 1));
    ASSERT_EQ(done.grants.size(), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      EXPECT_GT(done.grants[i].token, last[i]);
      last[i] = done.grants[i].token;
      Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock(keys[i]), .owner = Owner(static_cast<uint8_t>(1 + i))});
    }
  }
}

TEST_P(StoreConformance, OnlyItsHolderDowngradesALock) {
  Broker a = MakeBroker(kBrokerA);
  using Result = core::DowngradeDone::Result;
  EXPECT_EQ(Do<core::DowngradeDone>(a, Downgrade(1)).result, Result::kNotHolder) << "nobody's";
  const auto held = Do<core::AcquireGranted>(a, MakeAcquire(0, Lock("k"), Owner(1)));
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(Do<core::DowngradeDone>(a, Downgrade(2)).result, Result::kNotHolder);
    EXPECT_EQ(Do<core::DowngradeDone>(a, Downgrade(1, held.token + 1)).result, Result::kNotHolder) << "another grant";
    if (again == 0) {
      Do<core::AcquireHeld>(a, Reader(0, "k", 3, false));
      EXPECT_EQ(Do<core::DowngradeDone>(a, Downgrade(1)).result, Result::kDowngraded);
    }
  }
  EXPECT_EQ(HoldersOf(a), std::vector<int>{1});
  Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(1), .block = seconds(20)});
  EXPECT_EQ(Do<core::DowngradeDone>(a, Downgrade(1)).result, Result::kNotHolder) << "blocked";
}

TEST_P(StoreConformance, PermitsAreNotDowngraded) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Permit(1, 1));
  EXPECT_EQ(Do<core::DowngradeDone>(a, Downgrade(1)).result, core::DowngradeDone::Result::kAnotherMode);
  Do<core::AcquireGranted>(a, Permit(2, 2));
}

TEST_P(StoreConformance, ADowngradedHoldIsTheSameGrantAndSharedForGood) {
  Broker a = MakeBroker(kBrokerA);
  core::StoreAcquire writer = MakeAcquire(0, Lock("k"), Owner(1));
  writer.lock_delay = seconds(1);
  const auto held = Do<core::AcquireGranted>(a, writer);
  core::StoreDowngrade downgrade = Downgrade(1, held.token);
  downgrade.info = "+more";
  for (int again = 0; again < 2; ++again) Do<core::DowngradeDone>(a, downgrade);
  const auto view = Inspect(a, Lock("k"));
  ASSERT_EQ(view->holders.size(), 1u);
  EXPECT_EQ(view->holders[0].token, held.token);
  EXPECT_EQ(view->holders[0].info, writer.info + "+more") << "once";
  EXPECT_EQ(view->holders[0].ttl, writer.ttl);
  EXPECT_EQ(view->holders[0].lock_delay, writer.lock_delay);
  EXPECT_LE(view->holders[0].time_left, writer.ttl + writer.lock_delay);
  EXPECT_EQ(Do<core::AcquireMismatch>(a, writer).mode, core::Mode::kShared) << "not EXCLUSIVE again";
  EXPECT_EQ(Do<core::AcquireGranted>(a, Reader(0, "k", 1, false)).token, held.token);
  Do<core::AcquireGranted>(a, Reader(0, "k", 2, false));
  const core::StoreRenew renew{.items = {{Lock("k"), Owner(1), held.token, seconds(300)}}};
  EXPECT_EQ(Do<core::RenewDoneBatch>(a, renew).results, std::vector{core::RenewResult::kRenewed});
  EXPECT_TRUE(HandsOn(a, 1, {}));
  EXPECT_EQ(HoldersOf(a), std::vector<int>{2});
}

TEST_P(StoreConformance, AWriterInFrontKeepsReadersOutOfADowngradedLock) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, MakeAcquire(0, Lock("k"), Owner(1)));
  Do<core::AcquireQueued>(a, MakeAcquire(0, Lock("k"), Owner(2), true));
  Do<core::AcquireQueued>(a, Reader(0, "k", 3, true));
  EXPECT_TRUE(Do<core::DowngradeDone>(a, Downgrade(1)).next.empty());
  EXPECT_EQ(HoldersOf(a), std::vector<int>{1});
  EXPECT_EQ(WaitersOf(a), (std::vector<int>{2, 3}));
  EXPECT_TRUE(HandsOn(a, 1, {2}));
}

TEST_P(StoreConformance, WhatNoOtherBrokerCanEndIsReleasedAndHandedOn) {
  Broker a = MakeBroker(kBrokerA);
  using Result = core::ForceDone::Result;
  for (const std::string through :
       {"00000000000000ff", kBrokerA, ""}) {  // one that does not hear, the caller's, unknown
    core::StoreAcquire holder = MakeAcquire(0, Lock("k"), Owner(1));
    holder.lock_delay = seconds(20);
    Do<core::AcquireGranted>(a, holder);
    Do<core::AcquireQueued>(a, MakeAcquire(0, Lock("k"), Owner(2), true));
    const size_t heard = a.seen->inputs.size();
    const auto done = Do<core::ForceDone>(a, Force(1, through));
    EXPECT_EQ(done.result, Result::kReleased) << through;
    EXPECT_TRUE(AreNext(a, heard, done.next, {2})) << "a delay does not apply";
    EXPECT_TRUE(HandsOn(a, 2, {}));
  }
  EXPECT_EQ(a.seen->Count<core::ForceNotice>(), 0u);
}

TEST_P(StoreConformance, WhoIsToldToEndAHoldIsToldEachTimeAndAnothersIsLeftAlone) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  using Result = core::ForceDone::Result;
  EXPECT_EQ(Do<core::ForceDone>(a, Force(1, kBrokerB)).result, Result::kGone) << "nobody's";
  const auto held = Do<core::AcquireGranted>(b, MakeAcquire(0, Lock("k"), Owner(1)));
  EXPECT_EQ(Do<core::ForceDone>(a, Force(2, kBrokerB)).result, Result::kGone);
  EXPECT_EQ(Do<core::ForceDone>(a, Force(1, kBrokerB, held.token - 1)).result, Result::kGone);
  for (size_t times = 1; times <= 2; ++times) {
    EXPECT_EQ(Do<core::ForceDone>(a, Force(1, kBrokerB)).result, Result::kTold);
    EXPECT_TRUE(Await([&] { return b.seen->Count<core::ForceNotice>() == times; }));
  }
  EXPECT_EQ(HoldersOf(a), std::vector<int>{1});
}

TEST_P(StoreConformanceOfPermits, OneOfManyIsForcedAndTheOthersStay) {
  Broker a = MakeBroker(kBrokerA);
  for (const uint8_t reader : {1, 2}) Do<core::AcquireGranted>(a, Reader(0, "k", reader, false));
  Do<core::AcquireQueued>(a, MakeAcquire(0, Lock("k"), Owner(3), true));
  EXPECT_TRUE(Do<core::ForceDone>(a, Force(1, kBrokerA)).next.empty());
  EXPECT_EQ(HoldersOf(a), std::vector<int>{2});
  EXPECT_EQ(NumbersOf(Do<core::ForceDone>(a, Force(2, kBrokerA)).next), std::vector<int>{3});
  EXPECT_TRUE(HandsOn(a, 3, {}));
  Do<core::AcquireGranted>(a, Permit(4, 2));
  Do<core::AcquireGranted>(a, Permit(5, 1));
  Do<core::AcquireQueued>(a, Permit(6, 2));
  EXPECT_EQ(NumbersOf(Do<core::ForceDone>(a, Force(4, kBrokerA)).next), std::vector<int>{6});
  EXPECT_EQ(HoldersOf(a), (std::vector<int>{5, 6}));
}

}  // namespace distlock::store
