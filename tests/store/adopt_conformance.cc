// SPDX-License-Identifier: Apache-2.0
//
// Any Store: a hold that another owner takes over.
#include <algorithm>
#include <tuple>

#include "conformance.h"

namespace distlock::store {
namespace {

using core::Mode;
using std::chrono::seconds;
using Result = core::AdoptDone::Result;

constexpr char kBrokerA[] = "00000000000000a1";
constexpr char kBrokerB[] = "00000000000000b2";

core::StoreAcquire Wanting(uint8_t owner, core::Want want) {
  core::StoreAcquire acquire = MakeAcquire(0, Lock("k"), Owner(owner));
  acquire.want = want;
  acquire.lock_delay = seconds(2);
  return acquire;
}

// One try of request `request`.
core::OwnerId Try(uint8_t request, uint8_t number) {
  core::OwnerId owner{};
  owner.fill(request);
  owner.back() = number;
  return owner;
}

core::StoreAdopt Adopt(uint8_t from, uint64_t token, const core::OwnerId& owner, core::Want want = {}) {
  return {.name = Lock("k"), .from = Owner(from), .token = token, .owner = owner, .want = want, .info = "adopted"};
}

}  // namespace

TEST_P(StoreConformance, AnAdoptedHoldIsTheSameGrantOfAnotherOwner) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  for (const core::Want& want :
       {core::Want{}, core::Want{.mode = Mode::kShared}, core::Want{.mode = Mode::kPermit, .permits = 2, .limit = 3}}) {
    const auto held = Do<core::AcquireGranted>(a, Wanting(1, want));
    const auto done = Do<core::AdoptDone>(b, Adopt(1, held.token, Try(7, 1), want));
    ASSERT_EQ(done.result, Result::kAdopted);
    EXPECT_EQ(done.since, held.since);
    EXPECT_GE(done.held_for, core::Duration::zero());
    EXPECT_EQ(done.ttl, Wanting(1, want).ttl) << "as it was acquired";
    EXPECT_EQ(done.lock_delay, seconds(2));
    const auto view = Inspect(b, Lock("k"));
    ASSERT_EQ(view->holders.size(), 1u);
    EXPECT_EQ(view->holders[0].owner, Try(7, 1));
    EXPECT_EQ(view->holders[0].token, held.token);
    EXPECT_EQ(view->holders[0].info, "adopted");
    EXPECT_EQ(RenewAs(a, Owner(1), held.token), core::RenewResult::kMoved);
    EXPECT_EQ(RenewAs(b, Try(7, 1), held.token), core::RenewResult::kRenewed);
    for (const core::Duration block : {core::Duration(0), core::Duration(seconds(9))}) {
      const core::StoreRelease late{.name = Lock("k"), .owner = Owner(1), .token = held.token, .block = block};
      EXPECT_FALSE(Do<core::GiveBackDone>(a, late).was_holder) << "the former broker frees nothing";
    }
    const core::StoreRelease release{.name = Lock("k"), .owner = Try(7, 1), .token = held.token};
    EXPECT_TRUE(Do<core::GiveBackDone>(b, release).was_holder);
    EXPECT_TRUE(Inspect(b, Lock("k"))->holders.empty());
  }
}

// As when a broker stood still, and its client has gone on elsewhere.
TEST_P(StoreConformance, ALateTryOfAnEarlierSessionTakesNothingBack) {
  Broker a = MakeBroker(kBrokerA);
  const auto of_session = [](uint8_t session, uint8_t number) {
    core::OwnerId owner = Try(7, number);
    std::fill_n(owner.begin() + core::kRequestBytes, core::kTryBytes - core::kRequestBytes, uint8_t{0});
    owner[core::kTryBytes - 1] = session;
    return owner;
  };
  for (const core::Want& want : {core::Want{}, core::Want{.mode = Mode::kShared}}) {
    const auto held = Do<core::AcquireGranted>(a, Wanting(1, want));
    for (const auto& [session, number, expected] :
         {std::tuple(2, 1, Result::kAdopted), std::tuple(1, 9, Result::kLater), std::tuple(2, 2, Result::kAdopted),
          std::tuple(3, 0, Result::kAdopted), std::tuple(2, 2, Result::kLater)}) {
      const core::OwnerId owner = of_session(static_cast<uint8_t>(session), static_cast<uint8_t>(number));
      EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token, owner, want)).result, expected) << session;
    }
    EXPECT_EQ(RenewAs(a, of_session(3, 0), held.token), core::RenewResult::kRenewed);
    Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = of_session(3, 0)});
  }
}

TEST_P(StoreConformance, ARepeatedAdoptionTakesItFromTheFirstTry) {
  Broker a = MakeBroker(kBrokerA);
  for (const core::Want& want : {core::Want{}, core::Want{.mode = Mode::kShared}}) {
    const auto held = Do<core::AcquireGranted>(a, Wanting(1, want));
    for (const uint8_t number : {1, 2, 2}) {
      EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token, Try(7, number), want)).result, Result::kAdopted);
    }
    EXPECT_EQ(RenewAs(a, Try(7, 1), held.token), core::RenewResult::kMoved);
    EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token, Try(7, 1), want)).result, Result::kLater) << "late";
    EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token, Try(8, 1), want)).result, Result::kGone)
        << "another request has it";
    EXPECT_EQ(Inspect(a, Lock("k"))->holders.at(0).owner, Try(7, 2));
    Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Try(7, 2)});
    EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token, Try(7, 3), want)).result, Result::kGone) << "released";
  }
}

TEST_P(StoreConformance, OnlyTheVeryGrantIsAdoptedAndOnlyInTime) {
  Broker a = MakeBroker(kBrokerA);
  EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, 5, Try(7, 1))).result, Result::kGone) << "nobody's";
  const auto held = Do<core::AcquireGranted>(a, Wanting(1, {}));
  EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token + 1, Try(7, 1))).result, Result::kGone) << "another grant";
  EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(2, held.token, Try(7, 1))).result, Result::kGone) << "another owner";
  core::StoreAdopt late = Adopt(1, held.token, Try(7, 1));
  late.run_before = core::Instant(seconds(1));
  Do<core::AcquireLate>(a, late);
  const auto reader = Do<core::AdoptDone>(a, Adopt(1, held.token, Try(7, 1), {.mode = Mode::kShared}));
  EXPECT_EQ(reader.result, Result::kAnotherMode);
  EXPECT_EQ(reader.mode, Mode::kExclusive);
  EXPECT_EQ(Inspect(a, Lock("k"))->holders.at(0).owner, Owner(1));
  Do<core::GiveBackDone>(a, core::StoreRelease{.name = Lock("k"), .owner = Owner(1), .block = seconds(20)});
  EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, held.token, Try(7, 1))).result, Result::kGone) << "blocked";
  EXPECT_EQ(RenewAs(a, Owner(1), held.token), core::RenewResult::kAnothers) << "blocked is not moved";
}

TEST_P(StoreConformance, OneOfManyHoldersIsAdoptedBesideTheOthers) {
  Broker a = MakeBroker(kBrokerA);
  const core::Want two{.mode = Mode::kPermit, .permits = 2, .limit = 3};
  const core::Want one{.mode = Mode::kPermit, .permits = 1, .limit = 3};
  const auto first = Do<core::AcquireGranted>(a, Wanting(1, two));
  Do<core::AcquireGranted>(a, Wanting(2, one));
  EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, first.token, Try(7, 1), one)).result, Result::kAnotherMode) << "it has two";
  EXPECT_EQ(Do<core::AdoptDone>(a, Adopt(1, first.token, Try(7, 1), two)).result, Result::kAdopted);
  Do<core::AcquireHeld>(a, Wanting(3, one));
  EXPECT_EQ(Inspect(a, Lock("k"))->holder_count, 2u);
  const core::StoreRelease release{.name = Lock("k"), .owner = Try(7, 1), .token = first.token};
  EXPECT_TRUE(Do<core::GiveBackDone>(a, release).was_holder);
  Do<core::AcquireGranted>(a, Wanting(3, two));
  EXPECT_EQ(RenewAs(a, Owner(1), first.token), core::RenewResult::kAnothers);
}

TEST_P(StoreConformance, WatchersAreToldOfAnAdoption) {
  Broker a = MakeBroker(kBrokerA);
  const auto held = Do<core::AcquireGranted>(a, Wanting(1, {}));
  Do<core::WatchDone>(a, core::StoreWatch{.name = Lock("k")});
  const size_t before = a.seen->Count<core::ChangeNotice>();
  Do<core::AdoptDone>(a, Adopt(1, held.token, Try(7, 1)));
  EXPECT_TRUE(Await([&] { return a.seen->Count<core::ChangeNotice>() > before; }));
}

}  // namespace distlock::store
