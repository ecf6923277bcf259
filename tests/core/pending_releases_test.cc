// SPDX-License-Identifier: Apache-2.0
//
// Releases and withdrawals in great number: see also waiters_test.cc and leases_test.cc.
#include <utility>

#include "core/limits.h"
#include "table.h"

namespace distlock::core {
namespace {

// A session that ends with more leases than the store releases in an attempt's time.
TEST(PendingReleases, VeryManyLeaveAsFastAsTheStoreAnswers) {
  OneSession t;
  const int all = 3 * static_cast<int>(kMaxReleasesSent);
  for (int i = 1; i <= all; ++i) t.Hold(1, static_cast<RequestId>(i), "k" + std::to_string(i), i);
  t.commands.clear();
  t.Do(Goodbye{1});
  EXPECT_EQ(t.Count<StoreRelease>(), kMaxReleasesSent);
  EXPECT_EQ(t.broker.Stats().pending_releases, static_cast<size_t>(all));

  const auto first = t.Take<StoreRelease>();
  t.Reply(first.op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Count<StoreRelease>(), kMaxReleasesSent) << "an answer lets the next one go";

  // Somebody asks for one that is deferred: it is the next.
  const auto last = Owner(all);
  t.Do(Release{.session = 9,
               .request = 1,
               .name = Name("k" + std::to_string(all)),
               .owner = last,
               .token = t.next_token,
               .ttl = kT});
  t.Do(Release{.session = 9, .request = 2, .name = Name("new"), .owner = Owner(all + 1), .token = 42, .ttl = kT});
  EXPECT_EQ(t.Count<StoreRelease>(), kMaxReleasesSent);
  const auto awaited = [&] {
    size_t n = 0;
    for (const StoreCommand& command : t.commands) {
      const auto* release = std::get_if<StoreRelease>(&command);
      n += release != nullptr && (release->owner == Owner(all + 1) || release->owner == last);
    }
    return n;
  };
  EXPECT_EQ(awaited(), 0u);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(awaited(), 1u) << "what a caller waits for goes first";

  while (t.Count<StoreRelease>() > 0) t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

TEST(PendingReleases, VeryManyOutliveTheStoresAbsence) {
  OneSession t;
  const int all = 2 * static_cast<int>(kMaxReleasesSent);
  for (int i = 1; i <= all; ++i) t.Hold(1, static_cast<RequestId>(i), "k" + std::to_string(i), i);
  t.commands.clear();
  t.Do(Goodbye{1});
  t.Pass(seconds(4));  // no answer: asked again, and no more of them
  EXPECT_LE(t.Count<StoreRelease>(), 2 * kMaxReleasesSent);
  t.Do(StoreDown{"gone"});
  const auto lost = std::exchange(t.commands, {});
  for (const StoreCommand& command : lost) {
    if (const auto* release = std::get_if<StoreRelease>(&command)) t.Reply(release->op, StoreUnknown{"gone"});
  }
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.StoreComesUp();
  EXPECT_GT(t.Count<StoreRelease>(), 0u);
  for (int i = 0; i < 10 && t.broker.Stats().pending_releases > 0; ++i) {
    while (t.Count<StoreRelease>() > 0) t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
    t.Pass(seconds(3));
  }
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

Release ByOwner(SessionId session, uint64_t token) {
  return {.session = session, .request = 1, .name = Name("a"), .owner = Owner(1), .token = token, .ttl = kT};
}

TEST(PendingReleases, OfALeaseOfTheSameSessionIsAnsweredOnce) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  auto release = ByOwner(1, granted.token);
  release.request = 8;
  t.Do(release);
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true});
  EXPECT_EQ(t.Event<Released>(1, 8).outcome, ReleaseOutcome::kReleased);
  EXPECT_EQ(t.Events<Released>(), 0u) << "it was not somebody else";
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

TEST(PendingReleases, OfAnyGrantStaysSoWhenOneIsNamedAsWell) {
  Table t;
  t.is_any_meant = true;
  t.StoreComesUp();
  t.Do(StoreDown{"gone"});
  t.Do(ByOwner(3, 0));
  t.Do(ByOwner(4, 43));
  t.StoreComesUp();
  EXPECT_EQ(t.Take<StoreRelease>().token, 0u);
}

Acquire Repeatable(Table& t, SessionId session) {
  Acquire want = t.WantDetached(session, 1, "a", 1);
  want.owner[0] = kRepeatableMark;
  return want;
}

void WithdrawARepeatable(Table& t) {
  t.Do(Repeatable(t, 1));
  t.Reply(t.Take<StoreAcquire>().op, AcquireQueued{0, {HolderView{.owner = Owner(99), .time_left = kT}}, 1});
  t.Do(StreamEnded{1});
}

// A release that comes late, over a connection that was given up, must not end what the owner is granted meanwhile.
TEST(PendingReleases, OfALeaseNameTheGrantThatHasEnded) {
  OneSession t;
  const uint64_t left = t.Hold(1, 1, "left", 1).token;
  const uint64_t released = t.Hold(1, 2, "released", 2).token;
  t.Do(Release{.session = 1, .request = 3, .acquire = 2});
  EXPECT_EQ(t.Take<StoreRelease>().token, released);
  t.Do(Goodbye{1});
  EXPECT_EQ(t.Take<StoreRelease>().token, left);
}

// A withdrawal names no grant and no place. While one may run whose answer was lost, its owner must have neither.
TEST(PendingReleases, AnOwnerAsksAgainWhenNoWithdrawalCanRunAnyMore) {
  Table t;
  t.StoreComesUp();
  WithdrawARepeatable(t);
  const auto lost = t.Take<StoreWithdraw>();
  EXPECT_EQ(lost.run_before, t.now + kAttemptMax);
  t.Reply(lost.op, StoreUnknown{"reset"});
  t.Pass(milliseconds(200));
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{.was_waiter = true});
  t.Do(Repeatable(t, 2));
  t.Pass(lost.run_before - t.now - milliseconds(1));
  EXPECT_EQ(t.Count<StoreAcquire>() + t.Count<StoreWithdraw>(), 0u);
  t.Pass(milliseconds(1));
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u);
}

TEST(PendingReleases, AWithdrawalThatCameTooLateIsRepeated) {
  Table t;
  t.StoreComesUp();
  WithdrawARepeatable(t);
  t.Reply(t.Take<StoreWithdraw>().op, AcquireLate{});
  t.Pass(milliseconds(200));
  t.Reply(t.Take<StoreWithdraw>().op, GiveBackDone{});
  t.Do(Repeatable(t, 2));
  EXPECT_EQ(t.Count<StoreAcquire>(), 1u) << "what did nothing is nothing to wait for";
}

TEST(PendingReleases, UnderAForeignKeyNothingIsLeftToRelease) {
  Table t;
  t.StoreComesUp();
  t.Do(ByOwner(3, 42));
  t.Reply(t.Take<StoreRelease>().op, StoreFailed{FailureKind::kForeignKey, "a list"});
  EXPECT_EQ(t.Event<Released>(3, 1).outcome, ReleaseOutcome::kAlreadyGone);
  t.Pass(seconds(60));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  EXPECT_EQ(t.broker.Stats().pending_releases, 0u);
}

}  // namespace
}  // namespace distlock::core
