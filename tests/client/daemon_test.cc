// SPDX-License-Identifier: Apache-2.0
//
// The library against a real distlockd with a store of its own.
#include <atomic>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon_fixture.h"

namespace distlock {
namespace {

using std::chrono::seconds;

// An acquire that has to queue before its answer comes.
class Waiting {
 public:
  template <class Start>
  Waiting(LockOptions options, Start start) {
    options.on_queued = [this](const QueuedInfo& info) { queued_.set_value(info); };
    start(std::move(options), [this](Result<Guard> answer) { answer_.set_value(std::move(answer)); });
  }

  QueuedInfo Queued() { return Get(queued_.get_future()).value_or(QueuedInfo{}); }
  bool Answered() const { return answered_.wait_for(seconds(0)) == std::future_status::ready; }
  Guard Granted() { return Get(std::move(answered_)).value().value(); }

 private:
  template <class T>
  static std::optional<T> Get(std::future<T> future) {
    if (future.wait_for(kPatience) == std::future_status::ready) return future.get();
    ADD_FAILURE() << "it never came";
    return std::nullopt;
  }

  std::promise<QueuedInfo> queued_;
  std::promise<Result<Guard>> answer_;
  std::future<Result<Guard>> answered_ = answer_.get_future();
};

TEST_F(DaemonTest, TwoReadersShareAndAWriterWaitsForBoth) {
  RwLock lock = one_.MakeRwLock("table", {.owner = "first"});
  Result<Guard> first = lock.ReadLock();
  ASSERT_TRUE(first.ok());
  Result<Guard> second = two_.MakeRwLock("table", {.owner = "second"}).TryReadLock();
  ASSERT_TRUE(second.ok());
  EXPECT_GT(second->token(), first->token());

  const Result<Guard> refused = two_.MakeRwLock("table").TryWriteLock();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.refusal().reason, RefusalReason::kLockHeld);
  ASSERT_EQ(refused.refusal().holders.size(), 2u);
  EXPECT_EQ(refused.refusal().holders[0].owner, "first");
  EXPECT_EQ(refused.refusal().holders[1].mode, LockMode::kShared);

  Waiting writer({}, [&](LockOptions options, LockCallback tell) {
    two_.MakeRwLock("table", std::move(options)).WriteLockAsync(std::move(tell));
  });
  EXPECT_EQ(writer.Queued().holders.size(), 2u);
  EXPECT_EQ(first->Release(), ReleaseOutcome::kReleased);
  EXPECT_EQ(lock.TryReadLock().refusal().reason, RefusalReason::kLockHeld) << "a writer waits in front";
  EXPECT_FALSE(writer.Answered());
  EXPECT_EQ(second->Release(), ReleaseOutcome::kReleased);
  Guard writing = writer.Granted();
  EXPECT_GT(writing.token(), second->token());
  EXPECT_FALSE(lock.TryReadLock().ok());
  EXPECT_EQ(one_.MakeMutex("table").TryLock().refusal().holders.at(0).mode, LockMode::kExclusive);
  EXPECT_EQ(writing.Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(lock.TryWriteLock().ok());
}

TEST_F(DaemonTest, ASemaphoreOfTwoLetsTwoInAndTheThirdWaits) {
  Semaphore semaphore = one_.MakeSemaphore("pool", 2);
  Result<Guard> first = semaphore.TryAcquire();
  Result<Guard> second = two_.MakeSemaphore("pool", 2).Acquire();
  ASSERT_TRUE(first.ok() && second.ok());
  const Result<Guard> refused = semaphore.TryAcquire();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.refusal().holders.at(0).mode, LockMode::kPermit);
  EXPECT_EQ(refused.refusal().holders.at(0).permits, 1);

  Waiting third({}, [&](LockOptions options, LockCallback tell) {
    two_.MakeSemaphore("pool", 2, std::move(options)).AcquireAsync(std::move(tell));
  });
  third.Queued();
  EXPECT_FALSE(third.Answered());
  EXPECT_EQ(first->Release(), ReleaseOutcome::kReleased);
  Guard granted = third.Granted();
  EXPECT_EQ(granted.state(), LockState::kHeld);
  EXPECT_EQ(semaphore.TryAcquireFor(std::chrono::milliseconds(10)).refusal().reason, RefusalReason::kWaitTimeout);
}

TEST_F(DaemonTest, AllPermitsAtOnceExcludeEverybody) {
  Semaphore semaphore = one_.MakeSemaphore("pool", 3);
  Result<Guard> all = semaphore.Acquire(3);
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE(semaphore.TryAcquire().ok());
  EXPECT_EQ(all->Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(semaphore.TryAcquire().ok());
  EXPECT_EQ(semaphore.TryAcquire(4).refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(semaphore.TryAcquire(-1).refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(one_.MakeSemaphore("other", -1).TryAcquire().refusal().reason, RefusalReason::kInvalidArgument);
}

TEST_F(DaemonTest, ARefusalNamesTheLockDelayAndNoHolder) {
  const LockOptions options{.max_hold = seconds(1), .lock_delay = seconds(60), .owner = "ann"};
  Result<Guard> lost = one_.MakeMutex("k", options).Lock();
  ASSERT_TRUE(lost.ok()) << lost.refusal().message;
  std::promise<void> ended;
  const std::stop_callback on_end(lost->stop_token(), [&] { ended.set_value(); });
  ASSERT_EQ(ended.get_future().wait_for(kPatience), std::future_status::ready);
  std::optional<Refusal> blocked;
  const auto ask = [&] { return blocked.emplace(two_.MakeMutex("k").TryLock().refusal()).holders.empty(); };
  while (!ask()) std::this_thread::yield();  // the client's own deadline is earlier than the broker's end of the lease
  EXPECT_EQ(blocked->reason, RefusalReason::kLockHeld);
  ASSERT_TRUE(blocked->block);
  EXPECT_EQ(blocked->block->owner, "ann");
  EXPECT_GT(blocked->block->time_left, seconds(0));
  EXPECT_LE(blocked->block->time_left, seconds(60));
  EXPECT_GT(blocked->block->start_time.time_since_epoch(), seconds(0));
  EXPECT_FALSE(two_.MakeElection("k").Look().value().has_value()) << "nobody leads";
}

TEST_F(DaemonTest, AnotherLimitOrModeIsAMismatch) {
  Result<Guard> held = one_.MakeSemaphore("pool", 2).Acquire();
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(two_.MakeSemaphore("pool", 3).TryAcquire().refusal().reason, RefusalReason::kLimitMismatch);
  EXPECT_EQ(two_.MakeMutex("pool").TryLock().refusal().reason, RefusalReason::kLimitMismatch);
  EXPECT_EQ(two_.MakeRwLock("pool").TryReadLock().refusal().reason, RefusalReason::kLimitMismatch);
}

TEST_F(DaemonTest, ReadersNeverMeetAWriter) {
  std::atomic<int> reading{0};
  std::atomic<int> writing{0};
  const auto work = [&](Client& client, int number) {
    RwLock lock = client.MakeRwLock("busy");
    for (int round = 0; round < 20; ++round) {
      const bool writes = (round + number) % 4 == 0;
      Result<Guard> guard = writes ? lock.WriteLock() : lock.ReadLock();
      ASSERT_TRUE(guard.ok()) << guard.refusal().message;
      std::atomic<int>& mine = writes ? writing : reading;
      const int others = mine.fetch_add(1);
      EXPECT_EQ((writes ? reading : writing).load(), 0);
      EXPECT_TRUE(!writes || others == 0);
      std::this_thread::yield();
      mine.fetch_sub(1);
    }
  };
  std::vector<std::thread> workers;
  for (int number = 0; number < 6; ++number) {
    workers.emplace_back(work, std::ref(number % 2 == 0 ? one_ : two_), number);
  }
  for (std::thread& worker : workers) worker.join();
}

}  // namespace
}  // namespace distlock
