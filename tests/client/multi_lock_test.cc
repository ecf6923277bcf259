// SPDX-License-Identifier: Apache-2.0
//
// Several locks at once, and re-entry, through a real distlockd.
#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "daemon_fixture.h"

namespace distlock {
namespace {

using std::chrono::milliseconds;

TEST_F(DaemonTest, SeveralLocksAreGrantedTogetherAndGivenBackTogether) {
  Result<MultiGuard> all = one_.MakeMultiLock(LockSet({"c", "a", "b"}, {.owner = "me"})).Lock();
  ASSERT_TRUE(all.ok()) << all.refusal().message;
  EXPECT_EQ(all->size(), 3u);
  EXPECT_EQ(all->state(), LockState::kHeld);
  EXPECT_EQ(all->end_cause(), EndCause::kNotEnded);
  EXPECT_FALSE(all->stop_token().stop_requested());
  for (size_t i = 0; i < all->size(); ++i) {
    EXPECT_GT(all->token(i), 0);
    EXPECT_GE(all->part(i).valid_until(), all->valid_until());
  }
  for (const char* key : {"a", "b", "c"}) {
    const Result<Guard> refused = two_.MakeMutex(key).TryLock();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.refusal().holders.at(0).owner, "me");
  }
  const std::stop_token stop = all->stop_token();
  EXPECT_EQ(all->Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(all->state(), LockState::kReleased);
  EXPECT_EQ(all->end_cause(), EndCause::kReleased);
  EXPECT_EQ(all->Release(), ReleaseOutcome::kAlreadyGone);
  for (const char* key : {"a", "b", "c"}) EXPECT_TRUE(two_.MakeMutex(key).TryLock().ok());
}

TEST_F(DaemonTest, OneThatIsHeldRefusesAllAndTheOthersStayFree) {
  Result<Guard> held = two_.MakeMutex("b", {.owner = "other"}).Lock();
  MultiLock both = one_.MakeMultiLock(LockSet({"a", "b"}));
  const Result<MultiGuard> tried = both.TryLock();
  ASSERT_FALSE(tried.ok());
  EXPECT_EQ(tried.refusal().reason, RefusalReason::kLockHeld);
  EXPECT_EQ(tried.refusal().holders.at(0).owner, "other");
  EXPECT_EQ(both.TryLockFor(milliseconds(20)).refusal().reason, RefusalReason::kWaitTimeout);
  EXPECT_TRUE(two_.MakeMutex("a").TryLockFor(kPatience).ok());
  EXPECT_EQ(held->Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(both.TryLockFor(kPatience).ok());
}

TEST_F(DaemonTest, AWaitForSeveralEndsWithTheLastOfThem) {
  Result<Guard> held = two_.MakeMutex("b").Lock();
  std::promise<Result<MultiGuard>> promise;
  std::future<Result<MultiGuard>> answer = promise.get_future();
  one_.MakeMultiLock(LockSet({"b", "a"})).LockAsync([&](Result<MultiGuard> got) { promise.set_value(std::move(got)); });
  while (two_.MakeMutex("a").TryLock().ok())
    std::this_thread::yield();  // held while the request waits for the other lock
  EXPECT_EQ(answer.wait_for(milliseconds(0)), std::future_status::timeout);
  EXPECT_EQ(held->Release(), ReleaseOutcome::kReleased);
  ASSERT_EQ(answer.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(answer.get().value().state(), LockState::kHeld);
}

TEST_F(DaemonTest, AWaitForSeveralCanBeCancelled) {
  Result<Guard> held = two_.MakeMutex("b").Lock();
  std::stop_source stop;
  std::thread canceller([&] {
    while (two_.MakeMutex("a").TryLock().ok()) std::this_thread::yield();
    stop.request_stop();
  });
  const Result<MultiGuard> cancelled = one_.MakeMultiLock(LockSet({"a", "b"})).Lock(stop.get_token());
  canceller.join();
  ASSERT_FALSE(cancelled.ok());
  EXPECT_EQ(cancelled.refusal().reason, RefusalReason::kCancelled);
  EXPECT_TRUE(two_.MakeMutex("a").TryLockFor(kPatience).ok());
}

TEST_F(DaemonTest, EachOfThemHasItsOwnMode) {
  LockSet set;
  set.Shared("table").Permits("pool", 2).Exclusive("report");
  Result<MultiGuard> first = one_.MakeMultiLock(set).TryLock();
  ASSERT_TRUE(first.ok()) << first.refusal().message;
  set = LockSet().Shared("table").Permits("pool", 2);
  Result<MultiGuard> second = two_.MakeMultiLock(set).TryLock();
  ASSERT_TRUE(second.ok()) << second.refusal().message;
  EXPECT_EQ(two_.MakeSemaphore("pool", 2).TryAcquire().refusal().reason, RefusalReason::kLockHeld);
  EXPECT_FALSE(two_.MakeMutex("table").TryLock().ok());
  EXPECT_FALSE(two_.MakeMutex("report").TryLock().ok());
}

TEST_F(DaemonTest, APartThatEndsStopsTheTokenAndNotTheOthers) {
  Result<MultiGuard> all = one_.MakeMultiLock(LockSet({"a", "b"})).Lock();
  ASSERT_TRUE(all.ok());
  std::atomic<bool> stopped{false};
  const std::stop_callback on_end(all->stop_token(), [&] { stopped = true; });
  EXPECT_EQ(all->part(1).Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(all->state(), LockState::kReleased);
  EXPECT_EQ(all->part(0).state(), LockState::kHeld);
  EXPECT_FALSE(two_.MakeMutex("a").TryLock().ok());
  EXPECT_TRUE(two_.MakeMutex("b").TryLock().ok());
}

TEST_F(DaemonTest, APartThatIsLostIsTheLossOfAll) {
  LockSet set;
  set.Exclusive("a").Exclusive("b", {.max_hold = std::chrono::seconds(1)});
  Result<MultiGuard> all = one_.MakeMultiLock(set).Lock();
  ASSERT_TRUE(all.ok());
  std::promise<void> ended;
  const std::stop_callback on_end(all->stop_token(), [&] { ended.set_value(); });
  ASSERT_EQ(ended.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(all->state(), LockState::kLost);
  EXPECT_EQ(all->end_cause(), EndCause::kMaxHold);
  EXPECT_NE(all->end_message(), "");
  EXPECT_EQ(all->part(0).state(), LockState::kHeld);
}

TEST_F(DaemonTest, SeveralLocksGoWithoutWaitingForACallback) {
  LockSet set;
  set.Exclusive("a").Exclusive("b", {.max_hold = std::chrono::seconds(1)});
  std::optional<MultiGuard> all = one_.MakeMultiLock(set).Lock().value();
  std::mutex programs;
  std::promise<void> entered;
  const std::stop_callback on_end(all->stop_token(), [&] {
    entered.set_value();
    const std::lock_guard lock(programs);
  });
  {
    const std::lock_guard lock(programs);
    ASSERT_EQ(entered.get_future().wait_for(kPatience), std::future_status::ready);
    all.reset();
  }
  EXPECT_TRUE(two_.MakeMutex("a").TryLockFor(kPatience).ok());
}

TEST_F(DaemonTest, WhatCannotBeAskedForTogetherIsRefused) {
  EXPECT_EQ(one_.MakeMultiLock({}).TryLock().refusal().reason, RefusalReason::kInvalidArgument);
  const std::vector<std::string> many(65, "k");
  EXPECT_EQ(one_.MakeMultiLock(LockSet(many)).TryLock().refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(one_.MakeMultiLock(LockSet({"a", "a"})).TryLock().refusal().reason, RefusalReason::kInvalidArgument);
  const LockSet reentrant({"a", "b"}, {.owner = "me", .reentrant = true});
  EXPECT_EQ(one_.MakeMultiLock(reentrant).TryLock().refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_TRUE(one_.MakeMultiLock(LockSet({"a", "b"})).TryLock().ok()) << "the session goes on";
}

TEST_F(DaemonTest, PhilosophersWhoNameTheirForksInAnyOrderAllEat) {
  constexpr int kPhilosophers = 5;
  std::atomic<int> meals{0};
  std::vector<std::thread> table;
  for (int i = 0; i < kPhilosophers; ++i) {
    table.emplace_back([&, i] {
      Client& client = i % 2 == 0 ? one_ : two_;
      const LockSet forks({"fork" + std::to_string(i), "fork" + std::to_string((i + 1) % kPhilosophers)});
      for (int round = 0; round < 10; ++round) {
        if (client.MakeMultiLock(forks).TryLockFor(kPatience).ok()) ++meals;
      }
    });
  }
  for (std::thread& philosopher : table) philosopher.join();
  EXPECT_EQ(meals, kPhilosophers * 10);
}

TEST_F(DaemonTest, TheSameOwnerTakesAReentrantLockAgain) {
  Mutex mutex = one_.MakeMutex("k", {.owner = "worker 1", .reentrant = true});
  Result<Guard> outer = mutex.Lock();
  ASSERT_TRUE(outer.ok()) << outer.refusal().message;
  Result<Guard> inner = mutex.TryLock();
  ASSERT_TRUE(inner.ok()) << inner.refusal().message;
  EXPECT_EQ(inner->token(), outer->token());
  EXPECT_EQ(outer->hold_count(), 1);
  EXPECT_EQ(inner->hold_count(), 2);
  EXPECT_FALSE(one_.MakeMutex("k", {.owner = "worker 2", .reentrant = true}).TryLock().ok());
  EXPECT_EQ(outer->Release(), ReleaseOutcome::kStillHeld) << "in any order";
  EXPECT_EQ(inner->state(), LockState::kHeld);
  EXPECT_FALSE(two_.MakeMutex("k").TryLock().ok());
  EXPECT_EQ(inner->Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(two_.MakeMutex("k").TryLock().ok());
}

}  // namespace
}  // namespace distlock
