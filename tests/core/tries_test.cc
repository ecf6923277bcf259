// SPDX-License-Identifier: Apache-2.0
//
// The tries of one request: what a stream waits for is kept for a while after its end, for the next try.
#include "table.h"

namespace distlock::core {
namespace {

OwnerId TryOf(uint8_t request, uint8_t number) {
  OwnerId owner{};
  owner[0] = kTryMark;
  owner[1] = request;
  owner.back() = number;
  return owner;
}

Acquire Wants(Table& t, SessionId session, RequestId request, uint8_t number) {
  Acquire acquire = t.Want(session, request, "a", 1);
  acquire.owner = TryOf(1, number);
  return acquire;
}

GrantNotice Notice(const OwnerId& owner, const Table& t) {
  return {.name = Name("a"), .owner = owner, .token = 900, .since = t.StoreNow(), .ttl = kT, .made = t.now};
}

// Session 1 waits as request 2, in the store's queue.
struct Waiting : OneSession {
  Waiting() {
    Do(Wants(*this, 1, 2, 1));
    EXPECT_FALSE(QueueNext().again);
    Event<Queued>(1, 2);
  }
};

TEST(Tries, APlaceIsKeptForAValidityAfterItsStreamBroke) {
  Waiting t;
  t.Do(StreamEnded{1});
  EXPECT_EQ(t.broker.Stats().waiters, 0u);
  t.Pass(kV - milliseconds(1));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(1));
  const auto withdraw = t.Take<StoreWithdraw>();
  EXPECT_EQ(withdraw.owner, TryOf(1, 1));
  EXPECT_FALSE(withdraw.keep_grant);
  t.Reply(withdraw.op, GiveBackDone{.was_waiter = true, .next = {}});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(Tries, AGrantThatFindsNobodyIsKeptUntilThen) {
  Waiting t;
  t.Do(StreamEnded{1});
  t.Pass(seconds(1));
  t.Do(Notice(TryOf(1, 1), t));
  t.Do(StoreDown{"gone"});
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreWithdraw>() + t.Count<StoreRelease>() + t.Count<StoreRenew>(), 0u);
  t.Pass(kV - seconds(1));
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, TryOf(1, 1));
  EXPECT_EQ(t.Events<Granted>(), 0u);
}

TEST(Tries, ADrainRefusesAndKeepsThePlacesAndGoesOnUntilTheyEnd) {
  Waiting t;
  t.Do(Drain{.timeout = seconds(30)});
  EXPECT_EQ(t.Event<Refused>(1, 2).reason, RefusalReason::kDraining);
  t.Pass(kV - milliseconds(1));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  EXPECT_EQ(t.drains, 0);
  t.Pass(milliseconds(1));
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.next = {}});
  EXPECT_EQ(t.drains, 1);
}

// Its next try is at another broker by then, and waits there for what this one has.
TEST(Tries, AGrantThatComesDuringADrainIsKeptForAMomentOnly) {
  Waiting t;
  t.Do(Drain{.timeout = seconds(30)});
  t.Pass(seconds(1));
  t.Do(Notice(TryOf(1, 1), t));
  t.Pass(kKeepForMove / 2);
  t.Do(Notice(TryOf(1, 1), t));
  t.Pass(kKeepForMove / 2 - milliseconds(1));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, TryOf(1, 1));
}

TEST(Tries, SoIsOneWhoseAnswerComesDuringADrain) {
  OneSession t;
  t.Do(Wants(t, 1, 2, 1));
  const auto ask = t.Take<StoreAcquire>();
  t.Do(Drain{.timeout = seconds(30)});
  t.Reply(ask.op, AcquireGranted{.token = 900, .since = t.StoreNow()});
  t.Pass(kKeepForMove - milliseconds(1));
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, TryOf(1, 1));
}

TEST(Tries, ButNotALeaseThatMayBeBelievedIn) {
  Waiting t;
  t.Do(Notice(TryOf(1, 1), t));
  t.Event<Granted>(1, 2);
  t.Do(StreamEnded{1});
  t.Do(Drain{.timeout = seconds(30)});
  t.Do(Notice(TryOf(1, 1), t));
  t.Pass(kV - milliseconds(1));
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Take<StoreRelease>().owner, TryOf(1, 1));
}

TEST(Tries, WhatTheClientGivesUpIsWithdrawnAtOnce) {
  Waiting goodbye;
  goodbye.Do(Goodbye{1});
  EXPECT_EQ(goodbye.Take<StoreWithdraw>().owner, TryOf(1, 1));
  Waiting cancelled;
  cancelled.Do(Cancel{.session = 1, .acquire = 2});
  EXPECT_EQ(cancelled.Take<StoreWithdraw>().owner, TryOf(1, 1));
  OneSession bounded;
  Acquire acquire = Wants(bounded, 1, 2, 1);
  acquire.max_wait = seconds(1);
  bounded.Do(acquire);
  bounded.QueueNext();
  bounded.Pass(seconds(1));
  EXPECT_EQ(bounded.Take<StoreWithdraw>().owner, TryOf(1, 1));
}

TEST(Tries, WithoutARequestIdAPlaceEndsWithItsStream) {
  OneSession t;
  t.Do(t.Want(1, 2, "a", 1));
  t.QueueNext();
  t.Do(StreamEnded{1});
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, Owner(1));
}

TEST(Tries, ASecondTryAtTheSameBrokerEndsTheFirstAndLeavesThePlaceToIt) {
  Waiting t;
  t.Open(2);
  t.Do(Wants(t, 2, 5, 2));
  EXPECT_EQ(t.Event<Refused>(1, 2).reason, RefusalReason::kCancelled);
  EXPECT_EQ(t.Count<StoreWithdraw>(), 0u);
  const auto ask = t.QueueNext();
  EXPECT_EQ(ask.owner, TryOf(1, 2));
  EXPECT_FALSE(ask.again);
  EXPECT_EQ(t.broker.Stats().waiters, 1u);
  t.Do(StreamEnded{1});
  t.Do(Notice(TryOf(1, 2), t));
  EXPECT_EQ(t.Event<Granted>(2, 5).owner, TryOf(1, 2));
  t.Pass(kV - milliseconds(1));
  t.Do(Heartbeat{.session = 2, .seq = 1});
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, TryOf(1, 1));
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Tries, AGrantThatWasToldIsKeptAsLongAsItMayBeBelievedIn) {
  Waiting t;
  t.Do(Notice(TryOf(1, 1), t));
  t.Event<Granted>(1, 2);
  t.Do(StreamEnded{1});
  t.Open(2);
  t.Do(Wants(t, 2, 5, 2));
  const auto ask = t.Take<StoreAcquire>();
  t.Reply(ask.op, AcquireQueued{.holders = {{.owner = TryOf(1, 1), .ttl = kT, .time_left = kT, .info = {}}},
                                .queue_length = 1,
                                .as_of = 900});
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "the try may be a late one";
  t.Pass(kV);
  EXPECT_EQ(t.Take<StoreRelease>().owner, TryOf(1, 1));
}

TEST(Tries, AGrantThatWasKeptIsGivenBackWhenTheNextTryComes) {
  Waiting t;
  t.Do(StreamEnded{1});
  t.Do(Notice(TryOf(1, 1), t));
  t.Open(2);
  t.Do(Wants(t, 2, 5, 2));
  const auto ask = t.Take<StoreAcquire>();
  t.Reply(ask.op, AcquireQueued{.holders = {{.owner = TryOf(1, 1), .ttl = kT, .time_left = kT, .info = {}}},
                                .queue_length = 1,
                                .as_of = 900});
  EXPECT_EQ(t.Take<StoreWithdraw>().owner, TryOf(1, 1));
}

TEST(Tries, ALeaseThatIsAliveIsNotGivenBackForALateTry) {
  Waiting t;
  t.Do(Notice(TryOf(1, 1), t));
  t.Event<Granted>(1, 2);
  t.Open(2);
  t.Do(Wants(t, 2, 5, 2));
  t.Reply(t.Take<StoreAcquire>().op,
          AcquireQueued{.holders = {{.owner = TryOf(1, 1), .ttl = kT, .time_left = kT, .info = {}}},
                        .queue_length = 1,
                        .as_of = 900});
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(Tries, ARetryLeavesThePlaceToAnotherTryAndAsksAgainLater) {
  Waiting t;
  for (uint64_t seq = 1; t.Count<StoreTend>() == 0 && seq < 15; ++seq) {
    t.Do(Heartbeat{.session = 1, .seq = seq});
    t.Pass(seconds(1));
  }
  t.Reply(t.Take<StoreTend>().op, TendDone{.slot_was_gone = true, .holders = {}});
  const auto ask = t.Take<StoreAcquire>();
  EXPECT_TRUE(ask.again);
  t.Reply(ask.op, AcquireHeld{.holders = {}, .queue_length = 1, .left = {}});
  EXPECT_EQ(t.Events<Refused>(), 0u);
  t.Pass(seconds(2));
  EXPECT_TRUE(t.Take<StoreAcquire>().again);
}

TEST(Tries, LocksThatWereTakenForAllAreKeptToo) {
  OneSession t;
  AcquireAll all;
  for (const char* key : {"a", "b"}) {
    all.parts.push_back(t.Want(1, 2 + all.parts.size(), key, 1));
    all.parts.back().owner = TryOf(static_cast<uint8_t>(1 + all.parts.size()), 1);
  }
  t.Do(all);
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{});
  t.GrantNext(800);
  t.QueueNext();
  t.Do(StreamEnded{1});
  t.Pass(kV - milliseconds(1));
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Take<StoreRelease>().name, Name("a"));
  EXPECT_EQ(t.Take<StoreWithdraw>().name, Name("b"));
}

}  // namespace
}  // namespace distlock::core
