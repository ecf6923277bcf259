// SPDX-License-Identifier: Apache-2.0
#include <absl/synchronization/blocking_counter.h>
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using testing::FakeBroker;
using v1::SessionCommand;

TEST(Load, ManyAcquiresLeaveInFewMessages) {
  constexpr int kLocks = 1000;
  FakeBroker broker;
  Client client({.address = broker.address()});
  ASSERT_TRUE(client.MakeMutex("warm up").Lock().ok());
  const size_t before = broker.Messages();
  absl::BlockingCounter released(kLocks);
  absl::Notification started;
  // From a callback, so that all commands leave together.
  client.MakeMutex("start").LockAsync([&](Result<Guard>) {
    for (int i = 0; i < kLocks; ++i) {
      client.MakeMutex("k" + std::to_string(i)).LockAsync([&](Result<Guard> guard) {
        guard->ReleaseAsync([&](ReleaseOutcome) { released.DecrementCount(); });
      });
    }
    started.Notify();
  });
  started.WaitForNotification();
  released.Wait();
  EXPECT_LT(broker.Messages() - before, 40u);
  EXPECT_EQ(broker.Streams(), 1u);
}

TEST(Load, AThousandThreadsExcludeEachOther) {
  constexpr int kThreads = 1000;
  FakeBroker broker;
  Client client({.address = broker.address()});
  Mutex mutex = client.MakeMutex("one");
  int inside = 0;  // not atomic: the lock protects it
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Result<Guard> guard = mutex.Lock();
      ASSERT_TRUE(guard.ok());
      ++inside;
      most = std::max(most.load(), inside);
      EXPECT_NE(guard->state(), LockState::kLost);
      --inside;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(broker.Count(SessionCommand::kAcquire), static_cast<size_t>(kThreads));
}

// 256 operations in flight from one thread: each slot takes and releases its own lock in turn.
TEST(Load, ManyInFlightFromCallbacks) {
  constexpr int kSlots = 256;
  constexpr int kRounds = 100;
  FakeBroker broker;
  Client client({.address = broker.address()});
  absl::BlockingCounter done(kSlots);
  struct Slot {
    Mutex mutex;
    absl::BlockingCounter& done;
    Guard guard;
    int rounds = 0;
    void Next() {
      if (++rounds > kRounds) {
        done.DecrementCount();
        return;
      }
      mutex.LockAsync([this](Result<Guard> result) {
        ASSERT_TRUE(result.ok());
        guard = *std::move(result);
        guard.ReleaseAsync([this](ReleaseOutcome) { Next(); });
      });
    }
  };
  std::vector<std::unique_ptr<Slot>> slots;
  for (int i = 0; i < kSlots; ++i) {
    slots.push_back(std::make_unique<Slot>(Slot{client.MakeMutex("k" + std::to_string(i)), done, Guard(), 0}));
  }
  for (const auto& slot : slots) slot->Next();
  done.Wait();
  EXPECT_EQ(broker.Count(SessionCommand::kAcquire), static_cast<size_t>(kSlots) * kRounds);
  EXPECT_LT(broker.Messages(), static_cast<size_t>(kSlots) * kRounds / 4);
}

TEST(Load, CancelsRaceGrants) {
  constexpr int kThreads = 16;
  FakeBroker broker;
  Client client({.address = broker.address()});
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      Mutex mutex = client.MakeMutex("hot");
      for (int i = 0; i < 50; ++i) {
        std::stop_source stop;
        std::thread canceller([&stop] { stop.request_stop(); });
        const Result<Guard> guard = mutex.Lock(stop.get_token());
        const RefusalReason reason = guard.ok() ? RefusalReason::kCancelled : guard.refusal().reason;
        EXPECT_EQ(reason, RefusalReason::kCancelled);
        canceller.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return !b.HeldByAnybody("hot"); })) << "an orphan";
}

}  // namespace
}  // namespace distlock
