// SPDX-License-Identifier: Apache-2.0
//
// Several locks of one request_id: who shares a request that still waits here, who is another, and what they may take
// from one another.
#include "several.h"

namespace distlock::core {
namespace {

constexpr Duration kOnce = Duration::zero();

TEST(BundleRepeat, OfFewerLocksIsAnotherRequest) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b", "c"}, 5));
  t.Do(t.Repeatable({"a", "b"}, 6));
  for (const RequestId request : {7, 8})
    EXPECT_EQ(t.Event<Refused>(6, request).reason, RefusalReason::kInvalidArgument);
  for (const uint64_t token : {41, 42, 43}) t.GrantNext(token);
  EXPECT_EQ(t.Event<Granted>(5, 9).token, 43u) << "the first one is as it was";
  EXPECT_EQ(t.Events<Granted>(), 2u);
}

// Each lock is answered under the number of its place in the request.
TEST(BundleRepeat, OfTheLocksInAnotherOrderIsAnotherRequest) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.Do(t.Repeatable({"b", "a"}, 6));
  EXPECT_EQ(t.Event<Refused>(6, 7).reason, RefusalReason::kInvalidArgument);
  for (const uint64_t token : {41, 42}) t.GrantNext(token);
  EXPECT_EQ(t.Events<Granted>(), 2u);
  EXPECT_EQ(t.Event<Granted>(5, 7).name, Name("a"));
}

TEST(BundleRepeat, ForALockThatWaitsUnderTheRequestIdAloneIsRefused) {
  Several t;
  auto alone = t.Repeatable({"b"}, 5).parts.front();
  t.Do(alone);
  t.QueueNext();
  t.Do(t.Repeatable({"a", "b"}, 6));
  EXPECT_EQ(t.Event<Refused>(6, 7).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(t.Count<StoreAcquireAll>(), 0u);
  t.Do(GrantNotice{Name("b"), Several::OwnerOf("b"), 42, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Event<Granted>(5, 7).token, 42u);
}

TEST(BundleRepeat, JoinsTheOneCallForAll) {
  for (const auto& max_wait : {std::optional<Duration>(), std::optional<Duration>(kOnce)}) {
    Several t;
    t.Do(t.Repeatable({"a", "b"}, 5));
    t.Do(t.Repeatable({"a", "b"}, 6, max_wait));
    EXPECT_EQ(t.Count<StoreAcquireAll>(), 1u);
    t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
    for (const SessionId session : {5, 6}) EXPECT_EQ(t.Event<Granted>(session, 8).token, 42u);
  }
}

TEST(BundleRepeat, AsOneTryIsAnsweredAtOnceWhileTheFirstWaitsOn) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.GrantNext(41);
  t.QueueNext();
  t.Do(t.Repeatable({"a", "b"}, 6, kOnce));
  t.Pass(Duration::zero());
  for (const RequestId request : {7, 8}) {
    const auto refused = t.Event<Refused>(6, request);
    EXPECT_EQ(refused.reason, RefusalReason::kLockHeld);
    EXPECT_EQ(refused.about, Name("b"));
  }
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Do(GrantNotice{Name("b"), Several::OwnerOf("b"), 42, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Event<Granted>(5, 8).token, 42u);
  EXPECT_EQ(t.Events<Granted>(), 1u) << "of the other lock, and to the first alone";
}

TEST(BundleRepeat, AsOneTryOfWhatIsAskedForRightNowSharesTheAnswer) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.GrantNext(41);
  t.Do(t.Repeatable({"a", "b"}, 6, kOnce));
  t.Pass(milliseconds(100));
  EXPECT_EQ(t.Events<Refused>(), 0u) << "nobody knows yet whether it is held";
  t.GrantNext(42);
  for (const SessionId session : {5, 6}) EXPECT_EQ(t.Event<Granted>(session, 8).token, 42u);
}

TEST(BundleRepeat, AsOneTryThatJoinsARequestStillAskingGetsItsAnswer) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.GrantNext(41);
  t.Do(t.Repeatable({"a", "b"}, 6, kOnce));
  t.QueueNext();
  for (const RequestId request : {7, 8}) {
    const auto refused = t.Event<Refused>(6, request);
    EXPECT_EQ(refused.reason, RefusalReason::kLockHeld);
    EXPECT_EQ(refused.about, Name("b"));
    ASSERT_EQ(refused.holders.size(), 1u);
    EXPECT_EQ(refused.holders[0].info, "who");
  }
  EXPECT_EQ(t.Events<Refused>() + t.Count<StoreWithdraw>(), 0u) << "the first one waits on";
  EXPECT_EQ(t.broker.Stats().waiters, 1u);
}

TEST(BundleRepeat, ThatWaitsOutlivesTheOneTryItJoined) {
  for (const bool ended : {false, true}) {
    Several t(false);
    t.Do(t.Repeatable({"a", "b"}, 5, kOnce));
    t.GrantNext(41);
    t.Do(t.Repeatable({"a", "b"}, 6));
    if (ended) t.Do(StreamEnded{5});
    const auto b = t.Take<StoreAcquire>();
    EXPECT_FALSE(b.wait);
    t.Reply(b.op, AcquireHeld{{HolderView{.owner = Owner(99), .time_left = kT}}, 0});
    EXPECT_EQ(t.Events<Refused>(), ended ? 0u : 2u) << "the repeat waits as long as it says itself";
    if (!ended) {
      EXPECT_EQ(t.Event<Refused>(5, 8).about, Name("b"));
    }
    const auto again = t.Take<StoreAcquire>();
    EXPECT_EQ(again.name, Name("b"));
    EXPECT_TRUE(again.wait);
    t.Reply(again.op, AcquireGranted{42, t.StoreNow()});
    EXPECT_EQ(t.Event<Granted>(6, 7).token, 41u);
    EXPECT_EQ(t.Event<Granted>(6, 8).token, 42u);
  }
}

TEST(BundleRepeat, APlaceThatOnlyAOneTryIsLeftForIsGivenUp) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.Do(t.Repeatable({"a", "b"}, 6, kOnce));
  t.Do(StreamEnded{5});
  t.QueueNext();
  EXPECT_EQ(t.Event<Refused>(6, 8).reason, RefusalReason::kLockHeld);
  EXPECT_TRUE(t.Take<StoreWithdraw>().keep_grant);
  EXPECT_EQ(t.broker.Stats().waiters + t.broker.Stats().queues, 0u);
}

// Not from when its callers came: they may have waited for the locks before it.
TEST(BundleRepeat, TheStoresSilenceCountsFromWhenALocksTurnCame) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.QueueNext();
  t.Pass(seconds(10));
  t.Do(GrantNotice{Name("a"), Several::OwnerOf("a"), 41, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Take<StoreAcquire>().name, Name("b"));
  t.Pass(milliseconds(4900));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(milliseconds(200));
  EXPECT_EQ(t.Event<Refused>(5, 7).reason, RefusalReason::kStoreUnavailable);
}

TEST(BundleRepeat, EachWaitsForItsOwnMaxWait) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.GrantNext(41);
  t.QueueNext();
  t.Do(t.Repeatable({"a", "b"}, 6, seconds(2)));
  t.Pass(seconds(2) - Duration(1));
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(Duration(1));
  const auto refused = t.Event<Refused>(6, 8);
  EXPECT_EQ(refused.reason, RefusalReason::kWaitTimeout);
  EXPECT_EQ(refused.waited, seconds(2));
  ASSERT_EQ(refused.holders.size(), 1u);
  EXPECT_EQ(refused.holders[0].info, "who");
  t.Event<Refused>(6, 7);
  EXPECT_EQ(t.Count<StoreWithdraw>() + t.Count<StoreRelease>() + t.Events<Refused>(), 0u)
      << "the first one still waits";
  t.Do(StreamEnded{5});
  EXPECT_EQ(t.Take<StoreWithdraw>().name, Name("b")) << "with the last one it is given up";
}

TEST(BundleRepeat, ThatGivesUpDuringTheCallForAllLeavesItToTheFirst) {
  Several t;
  t.Do(t.Repeatable({"a", "b"}, 5));
  const auto all = t.Take<StoreAcquireAll>();
  t.Do(t.Repeatable({"a", "b"}, 6, seconds(1)));
  t.Pass(seconds(1));
  for (const RequestId request : {7, 8}) t.Event<Refused>(6, request);
  EXPECT_TRUE(t.commands.empty() && t.notes.empty());
  t.Reply(all.op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  EXPECT_EQ(t.Event<Granted>(5, 7).token, 41u);
}

TEST(BundleRepeat, OfWhatIsBeingWithdrawnWaitsForThat) {
  Several t;
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{});
  t.QueueNext();
  t.Do(StreamEnded{5});
  const auto withdraw = t.Take<StoreWithdraw>();
  t.Do(t.Repeatable({"a", "b"}, 6));
  EXPECT_EQ(t.Count<StoreAcquireAll>() + t.Count<StoreAcquire>(), 0u) << "the withdrawal could undo it";
  t.Reply(withdraw.op, GiveBackDone{.was_waiter = true});
  EXPECT_EQ(t.Take<StoreAcquire>().name, Name("a"));
}

TEST(BundleRepeat, GivenUpItFreesWhatItHasTakenUnlessARepeatMayHaveThat) {
  for (const bool repeatable : {true, false}) {
    Several t(false);
    AcquireAll all = t.Repeatable({"a", "b"}, 5);
    if (!repeatable) all.parts[0].owner[0] = all.parts[1].owner[0] = 0;
    t.Do(all);
    t.GrantNext(41);
    t.QueueNext();
    t.Do(StreamEnded{5});
    EXPECT_EQ(t.Count<StoreRelease>(), repeatable ? 0u : 1u);
    EXPECT_EQ(t.Take<StoreWithdraw>().keep_grant, repeatable);
    EXPECT_EQ(t.broker.Stats().leases, 0u);
  }
}

// Only one of two requests under one request_id that share a lock can have it.
TEST(BundleRepeat, ALockThatAnotherRequestHasMeanwhileIsRefused) {
  Several t(false);
  t.Do(t.Repeatable({"a", "b"}, 5));
  const auto a = t.Take<StoreAcquire>();
  t.Do(t.Repeatable({"b", "c"}, 6));
  EXPECT_EQ(t.GrantNext(42).name, Name("b"));
  EXPECT_EQ(t.Take<StoreAcquire>().name, Name("c"));
  t.Reply(a.op, AcquireGranted{41, t.StoreNow()});
  for (const RequestId request : {7, 8})
    EXPECT_EQ(t.Event<Refused>(5, request).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(t.Events<Refused>(), 0u);
  EXPECT_EQ(t.broker.Stats().leases, 1u) << "b is kept for the other one";
  EXPECT_TRUE(t.commands.empty()) << "and nothing of it is given back";
}

TEST(BundleRepeat, AnAnswerForAllTakesNoLockFromAnotherRequest) {
  Several t;
  t.Do(t.Repeatable({"a", "b"}, 5));
  const auto all = t.Take<StoreAcquireAll>();
  t.Do(t.Repeatable({"a", "c"}, 6));
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{});
  EXPECT_EQ(t.GrantNext(41).name, Name("a"));
  const auto c = t.Take<StoreAcquire>();
  t.Reply(all.op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  for (const RequestId request : {7, 8})
    EXPECT_EQ(t.Event<Refused>(5, request).reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  t.Reply(c.op, AcquireGranted{43, t.StoreNow()});
  EXPECT_EQ(t.Event<Granted>(6, 7).token, 41u);
  EXPECT_EQ(t.Event<Granted>(6, 8).token, 43u);
}

TEST(BundleRepeat, GivenUpDuringTheCallForAllItLeavesAloneWhatAnotherRequestHas) {
  Several t;
  t.Do(t.Repeatable({"a", "b"}, 5));
  t.Take<StoreAcquireAll>();
  t.Do(t.Repeatable({"b", "c"}, 6));
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{});
  EXPECT_EQ(t.GrantNext(42).name, Name("b"));
  t.Do(StreamEnded{5});
  EXPECT_EQ(t.Take<StoreWithdraw>().name, Name("a"));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  EXPECT_EQ(t.GrantNext(43).name, Name("c"));
  EXPECT_EQ(t.Event<Granted>(6, 7).token, 42u);
}

}  // namespace
}  // namespace distlock::core
