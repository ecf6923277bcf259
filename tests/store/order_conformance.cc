// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about order and durations: answers tell fencing tokens and what is left, never a clock.
#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "conformance.h"

namespace distlock::store {
namespace {

using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000a1";

}  // namespace

// Notices and answers come in no common order, so each answer says which grants came before it.
TEST_P(StoreConformanceOfPrimaries, AnswersToWaitersTellWhichGrantsCameBefore) {
  Broker a = MakeBroker(kBrokerA);
  const auto first = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  const auto queued = AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  EXPECT_GE(queued.as_of, first.token);
  const auto tended = AskFor<core::TendDone>(a, 3, core::StoreTend{3, Lock("k"), {Owner(2)}});
  EXPECT_GE(tended.as_of, first.token);
  const auto released = AskFor<core::GiveBackDone>(a, 4, core::StoreRelease{4, Lock("k"), Owner(1), {}});
  ASSERT_EQ(released.next.size(), 1u);
  EXPECT_GT(released.next[0].token, std::max(queued.as_of, tended.as_of));
}

// Stores may do in one call what leaves together, and write at once what several readers of a lock ask.
TEST_P(StoreConformanceOfPrimaries, WhatReadersSendInOneTurnIsDoneInItsOrder) {
  Broker a = MakeBroker(kBrokerA);
  const auto read = [](core::OpId op, uint8_t owner) {
    core::StoreAcquire acquire = MakeAcquire(op, Lock("k"), Owner(owner));
    acquire.want.mode = core::Mode::kShared;
    return acquire;
  };
  const auto leave = [](core::OpId op, uint8_t owner) { return core::StoreRelease{op, Lock("k"), Owner(owner), {}}; };
  const auto turn = [&](const std::vector<core::StoreCommand>& commands, core::OpId last) {
    for (core::StoreCommand command : commands) a.store->Submit(std::move(command));
    a.store->Flush();
    EXPECT_TRUE(Await([&] { return a.seen->Replies(last) > 0; }));
  };
  const auto token = [&](core::OpId op) {
    const auto* granted = std::get_if<core::AcquireGranted>(&a.seen->Reply(op)->outcome);
    EXPECT_NE(granted, nullptr) << "op " << op;
    return granted == nullptr ? 0 : granted->token;
  };
  const auto was_holder = [&](core::OpId op) {
    const auto* done = std::get_if<core::GiveBackDone>(&a.seen->Reply(op)->outcome);
    return done != nullptr && done->was_holder;
  };
  turn({read(1, 1), read(2, 2), read(3, 3), read(4, 4)}, 4);
  for (core::OpId op = 1; op < 4; ++op) EXPECT_LT(token(op), token(op + 1));
  EXPECT_EQ(HoldersOf(a), (std::vector<int>{1, 2, 3, 4}));

  turn({leave(5, 1), read(6, 5), leave(7, 2), read(8, 6)}, 8);
  EXPECT_TRUE(was_holder(5) && was_holder(7));
  EXPECT_LT(token(4), token(6));
  EXPECT_LT(token(6), token(8));
  EXPECT_EQ(HoldersOf(a), (std::vector<int>{3, 4, 5, 6}));

  turn({leave(9, 3), read(10, 3), leave(11, 7), read(12, 7), leave(13, 7), leave(14, 4)}, 14);
  EXPECT_TRUE(was_holder(9) && was_holder(13) && was_holder(14));
  EXPECT_FALSE(was_holder(11));
  EXPECT_LT(token(10), token(12));
  EXPECT_EQ(HoldersOf(a), (std::vector<int>{5, 6, 3}));

  turn({leave(15, 5), leave(16, 6), leave(17, 3)}, 17);
  EXPECT_EQ(HoldersOf(a), std::vector<int>{});
}

// The owner's clock may be that of another broker, so what is left of max_hold is the store's reckoning.
TEST_P(StoreConformance, ARenewalTellsWhatIsLeftOfMaxHold) {
  Broker a = MakeBroker(kBrokerA);
  const auto grant = AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_EQ(grant.held_for, core::Duration::zero());
  core::StoreRenew renew{.op = 2, .items = {{.name = Lock("k"), .owner = Owner(1), .ttl = seconds(15), .ours = false}}};
  EXPECT_TRUE(AskFor<core::RenewDoneBatch>(a, 2, renew).hold_left.empty()) << "none was asked for";
  renew.op = 3;
  renew.items[0].hold_until = {grant.since.us + 9'000'000};
  const auto done = AskFor<core::RenewDoneBatch>(a, 3, renew);
  ASSERT_EQ(done.hold_left.size(), 1u);
  EXPECT_LE(done.hold_left[0], seconds(9));
  EXPECT_GT(done.hold_left[0], seconds(1));
  const auto again = AskFor<core::AcquireGranted>(a, 4, MakeAcquire(4, Lock("k"), Owner(1)));
  // The servers of a quorum have clocks of their own, which agree to some milliseconds.
  EXPECT_GE(again.held_for + std::chrono::milliseconds(5), seconds(9) - done.hold_left[0]);
}

}  // namespace distlock::store
