// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about watching.
#include "conformance.h"

namespace distlock::store {

using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";

TEST_P(StoreConformance, AWatchShowsTheLockAsInspectDoes) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  const LockView shown = AskFor<core::WatchDone>(a, 3, core::StoreWatch{3, Lock("k")}).view;
  const auto view = Inspect(a, Lock("k"));
  ASSERT_TRUE(view.ok()) << view.status();
  ASSERT_EQ(shown.holders.size(), 1u);
  EXPECT_EQ(shown.holders[0].owner, Owner(1));
  EXPECT_EQ(shown.holders[0].token, view->holders[0].token);
  EXPECT_EQ(shown.last_token, view->last_token);
  EXPECT_EQ(shown.holder_count, 1u);
  EXPECT_EQ(shown.queue_length, 1u);
  ASSERT_EQ(shown.waiters.size(), 1u);
  EXPECT_EQ(shown.waiters[0].owner, Owner(2));
}

TEST_P(StoreConformance, WhoWatchesIsToldOfChangesThroughAnotherBroker) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  AskFor<core::WatchDone>(b, 1, core::StoreWatch{1, Lock("k")});
  // Each server of a quorum tells.
  const bool is_quorum = GetParam().traits.is_quorum;
  const auto told = [&](size_t times) {
    return Await([&] {
      const size_t count = b.seen->Count<core::ChangeNotice>();
      return is_quorum ? count >= times : count == times;
    });
  };
  AskFor<core::AcquireGranted>(a, 1, MakeAcquire(1, Lock("k"), Owner(1)));
  ASSERT_TRUE(told(1));
  EXPECT_EQ(b.seen->Last<core::ChangeNotice>()->name, Lock("k"));
  AskFor<core::AcquireQueued>(a, 2, MakeAcquire(2, Lock("k"), Owner(2), true));
  EXPECT_TRUE(told(2));
  AskFor<core::RenewDoneBatch>(a, 3, core::StoreRenew{3, {{Lock("k"), Owner(1), 0, seconds(20)}}});
  AskFor<core::GiveBackDone>(a, 4, core::StoreRelease{4, Lock("k"), Owner(1)});
  EXPECT_TRUE(told(3)) << "a renewal is no change";
  AskFor<core::GiveBackDone>(a, 5, core::StoreRelease{5, Lock("k"), Owner(2), 0, seconds(20)});
  EXPECT_TRUE(told(4)) << "a block is one";
  EXPECT_EQ(a.seen->Count<core::ChangeNotice>(), 0u) << "it does not watch";
}

TEST_P(StoreConformanceOfPrimaries, EachBrokerThatWatchesIsToldOnceAndOfNoOtherLock) {
  Broker a = MakeBroker(kBrokerA);
  Broker b = MakeBroker(kBrokerB);
  for (Broker* broker : {&a, &b, &a}) Do<core::WatchDone>(*broker, core::StoreWatch{.name = Lock("k")});
  Do<core::AcquireGranted>(b, MakeAcquire(0, Lock("other"), Owner(1)));
  Do<core::AcquireGranted>(b, MakeAcquire(0, Lock("k"), Owner(1)));
  Do<core::GiveBackDone>(b, core::StoreRelease{.name = Lock("k"), .owner = Owner(1)});
  for (const Broker* broker : {&a, &b}) {
    ASSERT_TRUE(Await([&] { return broker->seen->Count<core::ChangeNotice>() >= 2; }));
    EXPECT_EQ(broker->seen->Last<core::ChangeNotice>()->name, Lock("k"));
    EXPECT_EQ(broker->seen->Count<core::ChangeNotice>(), 2u);
  }
}

TEST_P(StoreConformance, WhoWatchesIsToldOfItsOwnChangesToo) {
  Broker a = MakeBroker(kBrokerA);
  AskFor<core::WatchDone>(a, 1, core::StoreWatch{1, Lock("k")});
  AskFor<core::AcquireGranted>(a, 2, MakeAcquire(2, Lock("k"), Owner(1)));
  const size_t most = GetParam().traits.is_quorum ? 9 : 1;  // each server of a quorum tells
  EXPECT_TRUE(Await([&] {
    const size_t count = a.seen->Count<core::ChangeNotice>();
    return count >= 1 && count <= most;
  }));
}

}  // namespace distlock::store
