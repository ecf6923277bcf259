// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about order and durations: answers tell fencing tokens and what is left, never a clock.
#include <algorithm>
#include <chrono>

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
