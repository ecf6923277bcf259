// SPDX-License-Identifier: Apache-2.0
//
// Many holders: modes and policies as far as the core knows of them.
#include <set>

#include "core/limits.h"
#include "table.h"

namespace distlock::core {
namespace {

constexpr Want kReader{.mode = Mode::kShared};
constexpr Want kWriter{.mode = Mode::kExclusive, .policy = Policy::kWriterPreferring};

HolderView Of(const Table& t, int owner, uint64_t token) {
  return HolderView{.owner = Owner(owner), .token = token, .since = t.StoreNow(), .ttl = kT, .time_left = kT};
}

// Session 1's request n waits for "a" as owner n, wanting it so.
void Waits(Table& t, int n, const Want& want) {
  Acquire acquire = t.Want(1, static_cast<RequestId>(n), "a", n);
  acquire.want = want;
  t.Do(acquire);
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = kT}}, 1, kT});
  t.Event<Queued>(1, static_cast<RequestId>(n));
}

Table& Up(Table& t) {
  t.StoreComesUp();
  t.Open(1);
  return t;
}

StoreTend TendNow(Table& t) {
  t.Do(ChannelUp{});
  return t.Take<StoreTend>();
}

TEST(Kinds, AStoreWithoutPermitsRefusesThemAndAsksForNothing) {
  Table t(BrokerConfig{.store = {.takes_many_at_once = false, .has_permits = false}});
  Up(t);
  Acquire permit = t.Want(1, 1, "a", 1);
  permit.want = {.mode = Mode::kPermit, .permits = 1, .limit = 3};
  t.Do(permit);
  EXPECT_EQ(t.Event<Refused>(1, 1).reason, RefusalReason::kNotSupported);
  permit.request = 2;
  Acquire other = t.Want(1, 3, "b", 2);
  t.Do(AcquireAll{{other, permit}});
  EXPECT_EQ(t.Event<Refused>(1, 2).reason, RefusalReason::kNotSupported);
  EXPECT_EQ(t.Event<Refused>(1, 3).reason, RefusalReason::kNotSupported);
  EXPECT_TRUE(t.commands.empty());
  Acquire reader = t.Want(1, 4, "a", 4);
  reader.want = kReader;
  t.Do(reader);
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u);
}

TEST(Kinds, EveryGrantTellsHowManyReplicasConfirmedIt) {
  Table t(BrokerConfig{.store = {.replicas = 2}});
  Up(t);
  EXPECT_EQ(t.Hold(1, 1, "a", 1).replicas, 2u);
  t.Do(AcquireAll{{t.Want(1, 2, "b", 2), t.Want(1, 3, "c", 3)}});
  t.Reply(t.Take<StoreAcquireAll>().op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  EXPECT_EQ(t.Event<Granted>(1, 2).replicas, 2u);
}

TEST(Kinds, AskTheStoreForWhatIsWanted) {
  Table t;
  Up(t);
  Acquire acquire = t.Want(1, 1, "a", 1);
  acquire.want = {.mode = Mode::kPermit, .policy = Policy::kAdaptive, .permits = 2, .limit = 5};
  t.Do(acquire);
  EXPECT_EQ(t.Take<StoreAcquire>().want, acquire.want);
}

TEST(Kinds, AGrantSaysItsMode) {
  Table t;
  Up(t);
  Acquire acquire = t.Want(1, 1, "a", 1);
  acquire.want = kReader;
  t.Do(acquire);
  t.GrantNext(7);
  EXPECT_EQ(t.Event<Granted>(1, 1).mode, Mode::kShared);
}

TEST(Kinds, AMismatchIsRefusedAndSaysHowTheLockIsHeld) {
  Table t;
  Up(t);
  t.Do(t.Want(1, 1, "a", 1));
  t.Reply(t.Take<StoreAcquire>().op, AcquireMismatch{Mode::kPermit, 3});
  const auto refused = t.Event<Refused>(1, 1);
  EXPECT_EQ(refused.reason, RefusalReason::kLimitMismatch);
  EXPECT_NE(refused.cause.find("limit of 3"), std::string::npos) << refused.cause;
  EXPECT_TRUE(t.commands.empty()) << "nothing is held, so nothing is given back";
}

TEST(Kinds, OneReleaseHandsOffToAllNeighbours) {
  Table t;
  Up(t);
  for (const int n : {1, 2, 3}) Waits(t, n, kReader);
  t.Open(2);
  t.Hold(2, 9, "other", 9);
  t.Do(Release{.session = 2, .request = 10, .acquire = 9, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true, .next = {Of(t, 1, 78), Of(t, 3, 79)}});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 78u);
  EXPECT_EQ(t.Event<Granted>(1, 3).token, 79u);
  EXPECT_EQ(t.Events<Granted>(), 0u);
}

TEST(Kinds, WhatIsLeftToFetchIsFetchedAtOnce) {
  Table t;
  Up(t);
  Waits(t, 1, kReader);
  Acquire other = t.Want(1, 9, "a", 9);
  t.Do(other);
  t.Do(Cancel{1, 9});
  const auto withdraw = t.Take<StoreWithdraw>();
  t.Reply(withdraw.op, GiveBackDone{.was_waiter = true, .look = true, .next = {}});
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

TEST(Kinds, ACallToFetchIsHeededAtOnce) {
  Table t;
  Up(t);
  Waits(t, 1, kReader);
  t.Do(GrantNotice{Name("a"), OwnerId{}, 0, t.StoreNow(), Duration::zero(), t.now});
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

TEST(Kinds, ATendGrantsAllOfOursThatHoldIt) {
  Table t;
  Up(t);
  for (const int n : {1, 2, 3}) Waits(t, n, kReader);
  const StoreTend tend = TendNow(t);
  t.Reply(tend.op, TendDone{.holders = {Of(t, 1, 5), Of(t, 3, 6)}, .left = kT});
  EXPECT_EQ(t.Event<Granted>(1, 1).token, 5u);
  EXPECT_EQ(t.Event<Granted>(1, 3).token, 6u);
  EXPECT_EQ(t.broker.Stats().queues, 1u) << "2 still waits";
}

TEST(Kinds, ATendComesWhenTheFirstOfManyMayHaveEnded) {
  Table t;
  Up(t);
  Waits(t, 1, kReader);
  t.Reply(TendNow(t).op, TendDone{.holders = {}, .left = seconds(2)});
  t.Pass(seconds(2));
  EXPECT_EQ(t.Count<StoreTend>(), 0u);
  t.Pass(milliseconds(50));
  EXPECT_EQ(t.Count<StoreTend>(), 1u);
}

TEST(Kinds, AnExclusiveQueueAsksForItsFirstOnly) {
  Table t;
  Up(t);
  Waits(t, 1, {});
  Waits(t, 2, {});
  EXPECT_EQ(TendNow(t).asked, std::vector{Owner(1)});
}

TEST(Kinds, AskForThePreferredFirst) {
  Table t;
  Up(t);
  Waits(t, 1, kReader);
  Waits(t, 2, kWriter);
  EXPECT_EQ(TendNow(t).asked, (std::vector{Owner(2), Owner(1)}));
}

TEST(Kinds, MoreThanOneCallTakesAreAskedForInTurn) {
  Table t;
  Up(t);
  const int count = 2 * static_cast<int>(kMaxAsked) + 50;
  for (int n = 1; n <= count; ++n) Waits(t, n, kReader);
  std::set<OwnerId> seen;
  for (int call = 0; call < 3; ++call) {
    const StoreTend tend = TendNow(t);
    EXPECT_EQ(tend.asked.size(), kMaxAsked);
    EXPECT_EQ(tend.asked.front(), Owner(1)) << "the first keeps the others waiting";
    EXPECT_EQ(std::set<OwnerId>(tend.asked.begin(), tend.asked.end()).size(), kMaxAsked);
    seen.insert(tend.asked.begin(), tend.asked.end());
    t.Reply(tend.op, TendDone{.holders = {}, .left = kT});
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(count));
}

TEST(Kinds, AMismatchNamesTheModeOfTheHolders) {
  for (const auto& [mode, name] : {std::pair(Mode::kExclusive, "EXCLUSIVE"), std::pair(Mode::kShared, "SHARED")}) {
    Table t;
    Up(t);
    Acquire acquire = t.Want(1, 1, "a", 1);
    acquire.want = {.mode = Mode::kPermit, .permits = 1, .limit = 3};
    t.Do(acquire);
    t.Reply(t.Take<StoreAcquire>().op, AcquireMismatch{mode, 0});
    const auto refused = t.Event<Refused>(1, 1);
    EXPECT_EQ(refused.reason, RefusalReason::kLimitMismatch);
    EXPECT_NE(refused.cause.find(name), std::string::npos) << refused.cause;
  }
}

}  // namespace
}  // namespace distlock::core
