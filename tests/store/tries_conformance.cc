// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about the tries of one request: a later one takes over the place of an earlier one.
#include "conformance.h"

namespace distlock::store {
namespace {

using core::StoreRelease;
using core::StoreWithdraw;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";

core::OwnerId TryOf(uint8_t request, uint8_t number, uint8_t dice = 0) {
  core::OwnerId owner{};
  owner[0] = core::kTryMark;
  owner[1] = request;
  owner[core::kTryBytes - 1] = number;
  owner.back() = dice;
  return owner;
}

core::StoreAcquire Queue(const core::OwnerId& owner) { return MakeAcquire(0, Lock("k"), owner, true); }

core::StoreAcquire Again(const core::OwnerId& owner) {
  core::StoreAcquire acquire = Queue(owner);
  acquire.again = true;
  return acquire;
}

StoreRelease Release(const core::OwnerId& owner) { return {.name = Lock("k"), .owner = owner}; }
StoreWithdraw Withdraw(const core::OwnerId& owner) { return {.name = Lock("k"), .owner = owner}; }

template <typename Views>
std::vector<core::OwnerId> Owners(const Views& views) {
  std::vector<core::OwnerId> owners;
  for (const auto& view : views) owners.push_back(view.owner);
  return owners;
}

core::StoreAcquire Shared(core::StoreAcquire acquire) {
  acquire.want.mode = core::Mode::kShared;
  return acquire;
}

core::StoreAcquire WriterFirst(core::StoreAcquire acquire) {
  acquire.want.policy = core::Policy::kWriterPreferring;
  return acquire;
}

}  // namespace

using Tries = std::vector<core::OwnerId>;

TEST_P(StoreConformance, ALaterTryTakesThePlaceOverAndTheFormerBrokerCannotWithdrawIt) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Queue(Owner(1)));
  Do<core::AcquireQueued>(a, Queue(TryOf(1, 1)));
  Do<core::AcquireQueued>(a, Queue(Owner(2)));
  const auto since = Inspect(a, Lock("k"))->waiters.at(0).since;
  const auto moved = Do<core::AcquireQueued>(b, Queue(TryOf(1, 2)));
  EXPECT_EQ(moved.position, 0u);
  EXPECT_EQ(moved.queue_length, 2u);
  EXPECT_EQ(Inspect(a, Lock("k"))->waiters.at(0).since, since) << "it has waited since then";
  const auto withdrawn = Do<core::GiveBackDone>(a, Withdraw(TryOf(1, 1)));
  EXPECT_FALSE(withdrawn.was_waiter);
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), (Tries{TryOf(1, 2), Owner(2)}));
  EXPECT_TRUE(Do<core::GiveBackDone>(a, Release(Owner(1))).next.empty()) << "it is the other broker's waiter";
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->holders), Tries{TryOf(1, 2)});
  EXPECT_FALSE(Do<core::GiveBackDone>(a, Withdraw(TryOf(1, 1))).was_holder);
  EXPECT_FALSE(Do<core::GiveBackDone>(a, Release(TryOf(1, 1))).was_holder);
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->holders), Tries{TryOf(1, 2)});
  EXPECT_EQ(Owners(Do<core::GiveBackDone>(b, Release(TryOf(1, 2))).next), Tries{});
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->holders), Tries{Owner(2)});
}

TEST_P(StoreConformance, ThePlaceMovesAsOftenAsTheRequest) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Queue(Owner(1)));
  for (uint8_t request = 1; request <= 5; ++request) Do<core::AcquireQueued>(a, Queue(TryOf(request, 1)));
  for (uint8_t number = 2; number <= 4; ++number) {
    Broker next = MakeBroker(number % 2 == 0 ? kBrokerB : "00000000000000cc");
    for (const uint8_t request : {4, 1, 5, 3, 2}) {
      EXPECT_EQ(Do<core::AcquireQueued>(next, Queue(TryOf(request, number))).position, request - 1u);
    }
  }
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters),
            (Tries{TryOf(1, 4), TryOf(2, 4), TryOf(3, 4), TryOf(4, 4), TryOf(5, 4)}));
}

TEST_P(StoreConformance, ARetryDoesNotTakeAPlaceBack) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Queue(Owner(1)));
  Do<core::AcquireQueued>(a, Queue(TryOf(1, 1)));
  Do<core::AcquireQueued>(b, Queue(TryOf(1, 2)));
  const auto is_gone = [&] {
    return Do<core::TendDone>(a, core::StoreTend{.name = Lock("k"), .asked = {TryOf(1, 1)}}).slot_was_gone;
  };
  // A quorum has answered the other broker once most servers had; a slow server may still have the old place.
  EXPECT_TRUE(GetParam().traits.is_quorum ? Await(is_gone) : is_gone());
  Do<core::AcquireHeld>(a, Again(TryOf(1, 1)));
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), Tries{TryOf(1, 2)});
  EXPECT_TRUE(Do<core::GiveBackDone>(b, Withdraw(TryOf(1, 2))).was_waiter);
  EXPECT_EQ(Do<core::AcquireQueued>(a, Again(TryOf(1, 1))).position, 0u) << "nobody else has it";
}

TEST_P(StoreConformance, AnEarlierTryThatComesLateTakesNothing) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Queue(Owner(1)));
  Do<core::AcquireQueued>(b, Queue(TryOf(1, 2)));
  Do<core::AcquireHeld>(a, Queue(TryOf(1, 1)));
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), Tries{TryOf(1, 2)});
  const size_t heard = b.seen->inputs.size();
  Do<core::GiveBackDone>(a, Release(Owner(1)));
  EXPECT_TRUE(Await([&] { return b.seen->inputs.size() > heard && !HoldersOf(b).empty(); }));
  Do<core::AcquireHeld>(a, Queue(TryOf(1, 1)));
  Do<core::AcquireQueued>(a, Queue(Owner(2)));
  Do<core::AcquireHeld>(a, Queue(TryOf(1, 1)));
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), Tries{Owner(2)});
}

TEST_P(StoreConformance, OfTriesWithOneNumberTheOneThatComesLastHasThePlace) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Queue(Owner(1)));
  Do<core::AcquireQueued>(a, Queue(TryOf(1, 0, 9)));
  Do<core::AcquireQueued>(a, Queue(TryOf(1, 0, 8)));
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), (Tries{TryOf(1, 0, 8)}));
}

TEST_P(StoreConformance, AGrantThatCrossesTheMoveIsNotSharedAndTheNextTryComesFirstAfterIt) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  const auto granted = Do<core::AcquireGranted>(a, Queue(TryOf(1, 1)));
  Do<core::AcquireQueued>(a, Queue(Owner(2)));
  Do<core::AcquireQueued>(a, Queue(Owner(3)));
  const auto queued = Do<core::AcquireQueued>(b, Queue(TryOf(1, 2)));
  EXPECT_EQ(queued.position, 0u);
  EXPECT_EQ(Owners(queued.holders), Tries{TryOf(1, 1)});
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), (Tries{TryOf(1, 2), Owner(2), Owner(3)}));
  Do<core::GiveBackDone>(a, Release(TryOf(1, 1)));
  const auto view = Inspect(a, Lock("k"));
  EXPECT_EQ(Owners(view->holders), Tries{TryOf(1, 2)});
  EXPECT_GT(view->holders.at(0).token, granted.token);
}

TEST_P(StoreConformance, APreferredTryAfterACrossingGrantStaysBeforeLaterPreferredOnes) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, WriterFirst(Queue(TryOf(1, 1))));
  Do<core::AcquireQueued>(a, Shared(WriterFirst(Queue(Owner(2)))));
  EXPECT_EQ(Do<core::AcquireQueued>(b, WriterFirst(Queue(TryOf(1, 2)))).position, 0u);
  EXPECT_EQ(Do<core::AcquireQueued>(a, WriterFirst(Queue(Owner(3)))).position, 1u);
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), (Tries{TryOf(1, 2), Owner(3), Owner(2)}));
}

TEST_P(StoreConformance, ReadersKeepTheirPlacesToo) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  Do<core::AcquireGranted>(a, Shared(Queue(TryOf(1, 1))));
  Do<core::AcquireQueued>(a, Queue(Owner(2)));
  Do<core::AcquireQueued>(a, Shared(Queue(TryOf(3, 1))));
  Do<core::AcquireQueued>(a, Queue(Owner(4)));
  Do<core::AcquireGranted>(b, Shared(Queue(TryOf(1, 2))));
  EXPECT_EQ(Do<core::AcquireQueued>(b, Shared(Queue(TryOf(3, 2)))).position, 1u);
  EXPECT_EQ(Owners(Inspect(a, Lock("k"))->waiters), (Tries{Owner(2), TryOf(3, 2), Owner(4)}));
}

TEST_P(StoreConformance, NothingIsLeftOfATryThatHasEnded) {
  Broker a = MakeBroker(kBrokerA);
  Do<core::AcquireGranted>(a, Queue(Owner(1)));
  for (const uint8_t request : {1, 2, 3}) Do<core::AcquireQueued>(a, Queue(TryOf(request, 1)));
  Do<core::GiveBackDone>(a, Withdraw(TryOf(2, 1)));
  size_t heard = a.seen->inputs.size();
  EXPECT_TRUE(OwnersAreNext(a, heard, Do<core::GiveBackDone>(a, Release(Owner(1))).next, Tries{TryOf(1, 1)}));
  heard = a.seen->inputs.size();
  EXPECT_TRUE(OwnersAreNext(a, heard, Do<core::GiveBackDone>(a, Release(TryOf(1, 1))).next, Tries{TryOf(3, 1)}));
  EXPECT_EQ(Do<core::AcquireQueued>(a, Queue(Owner(4))).position, 0u);
  EXPECT_EQ(Do<core::AcquireQueued>(a, Queue(TryOf(2, 2))).position, 1u) << "a withdrawn place is gone";
}

}  // namespace distlock::store
