// SPDX-License-Identifier: Apache-2.0
#include "distlock/coro.h"

#include <gtest/gtest.h>

#include <coroutine>
#include <future>
#include <optional>
#include <stop_token>
#include <thread>

#include "distlock/testing/broker.h"

namespace distlock {
namespace {

// Runs at once, and fulfils `done` at its end.
struct Fire {
  struct promise_type {
    Fire get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

class CoroTest : public ::testing::Test {
 protected:
  testing::Broker broker_;
  std::optional<Client> client_{ClientOptions{.address = broker_.address()}};
};

Fire LockTwice(Client& client, std::promise<ReleaseOutcome>& done) {
  Mutex mutex = client.MakeMutex("a");
  Result<Guard> first = co_await Await(mutex);
  if (!first.ok()) co_return done.set_value(ReleaseOutcome::kUnknown);
  Result<Guard> second = co_await AwaitFor(mutex, std::chrono::nanoseconds(0));
  if (second.ok() || second.refusal().reason != RefusalReason::kLockHeld) {
    co_return done.set_value(ReleaseOutcome::kUnknown);
  }
  done.set_value(co_await AwaitRelease(*first));
}

TEST_F(CoroTest, ACoroutineWaitsForALockAndGivesItBack) {
  std::promise<ReleaseOutcome> done;
  LockTwice(*client_, done);
  EXPECT_EQ(done.get_future().get(), ReleaseOutcome::kReleased);
  EXPECT_FALSE(broker_.IsHeld("a"));
}

Fire WaitFor(Client& client, std::stop_token cancel, std::promise<RefusalReason>& done) {
  Mutex mutex = client.MakeMutex("a");
  Result<Guard> guard = co_await Await(mutex, cancel);
  done.set_value(guard.ok() ? RefusalReason::kUnspecified : guard.refusal().reason);
}

TEST_F(CoroTest, AWaitIsCancelled) {
  broker_.Hold("a");
  std::stop_source stop;
  std::promise<RefusalReason> done;
  WaitFor(*client_, stop.get_token(), done);
  ASSERT_TRUE(broker_.WaitFor([this] { return broker_.acquires() == 1; }));
  stop.request_stop();
  EXPECT_EQ(done.get_future().get(), RefusalReason::kCancelled);
}

TEST_F(CoroTest, AWaitThatIsCancelledBeforeItBegins) {
  broker_.Hold("a");
  std::stop_source stop;
  stop.request_stop();
  std::promise<RefusalReason> done;
  WaitFor(*client_, stop.get_token(), done);
  EXPECT_EQ(done.get_future().get(), RefusalReason::kCancelled);
}

Fire TakeOneOfEach(Client& client, std::promise<int>& done) {
  int taken = 0;
  {
    RwLock lock = client.MakeRwLock("r");
    Semaphore semaphore = client.MakeSemaphore("s", 2);
    Election election = client.MakeElection("e");
    Result<Guard> reader = co_await AwaitRead(lock);
    Result<Guard> permit = co_await Await(semaphore);
    Result<Leadership> leader = co_await Await(election);
    taken = reader.ok() + permit.ok() + leader.ok();
  }
  done.set_value(taken);
}

TEST_F(CoroTest, EachKindOfLock) {
  std::promise<int> done;
  TakeOneOfEach(*client_, done);
  EXPECT_EQ(done.get_future().get(), 3);
}

}  // namespace
}  // namespace distlock
