// SPDX-License-Identifier: Apache-2.0
//
// The executor and the log of the program, callbacks that only move, and what a guard knows of its lock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distlock/client.h"
#include "distlock/testing/broker.h"

namespace distlock {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A queue that one thread empties.
class OneThread {
 public:
  OneThread() : thread_([this] { Run(); }) {}
  ~OneThread() {
    Post(nullptr);
    thread_.join();
  }
  void Post(Callback<void()> work) {
    const std::lock_guard lock(mu_);
    work_.push_back(std::move(work));
    came_.notify_one();
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void Run() {
    while (true) {
      std::unique_lock lock(mu_);
      came_.wait(lock, [this] { return !work_.empty(); });
      Callback<void()> next = std::move(work_.front());
      work_.erase(work_.begin());
      lock.unlock();
      if (!next) return;
      next();
    }
  }
  std::mutex mu_;
  std::condition_variable came_;
  std::vector<Callback<void()>> work_;
  std::thread thread_;
};

class ExecutorTest : public ::testing::Test {
 protected:
  ClientOptions Options() {
    ClientOptions options{.address = broker_.address()};
    options.executor = [this](Callback<void()> work) { program_.Post(std::move(work)); };
    return options;
  }
  testing::Broker broker_;
  OneThread program_;
  std::optional<Client> client_{Options()};
};

// The thread of the executor asks, waits in a blocking call for something else, and gives back.
TEST_F(ExecutorTest, CallbacksRunOnTheProgramsThreadWhichMayBlock) {
  std::promise<bool> done;
  program_.Post([&] {
    client_->MakeMutex("a").LockAsync([&, moves_only = std::make_unique<int>(1)](Result<Guard> guard) {
      const bool here = std::this_thread::get_id() == program_.id();
      Result<Guard> other = client_->MakeMutex("b").Lock();
      done.set_value(here && guard.ok() && other.ok() && other->Release() == ReleaseOutcome::kReleased);
    });
  });
  EXPECT_TRUE(done.get_future().get());
}

TEST_F(ExecutorTest, AllCallbacksOfAsyncCalls) {
  broker_.Hold("busy");
  LockOptions options;
  std::promise<std::thread::id> queued, released, downgraded, several;
  options.on_queued = [&](const QueuedInfo&) { queued.set_value(std::this_thread::get_id()); };
  PendingLock waiting = client_->MakeMutex("busy", options).LockAsync([](const Result<Guard>&) {});
  EXPECT_EQ(queued.get_future().get(), program_.id());
  waiting.Cancel();
  Guard guard = client_->MakeMutex("a").Lock().value();
  guard.DowngradeAsync([&](const std::optional<Refusal>&) { downgraded.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(downgraded.get_future().get(), program_.id());
  guard.ReleaseAsync([&](ReleaseOutcome) { released.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(released.get_future().get(), program_.id());
  client_->MakeMultiLock({}).LockAsync(
      [&](const Result<MultiGuard>&) { several.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(several.get_future().get(), program_.id());
}

TEST_F(ExecutorTest, AClosedClientAnswersThere) {
  Mutex mutex = client_->MakeMutex("a");
  client_.reset();
  std::promise<std::thread::id> refused;
  mutex.LockAsync([&](const Result<Guard>&) { refused.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(refused.get_future().get(), program_.id());
}

TEST(ClientLog, TellsOfTheConnection) {
  testing::Broker broker;
  std::mutex mu;
  std::vector<std::string> lines;
  ClientOptions options{.address = broker.address()};
  options.log = [&](LogLevel level, std::string_view line) {
    const std::lock_guard lock(mu);
    lines.push_back(std::to_string(static_cast<int>(level)) + " " + std::string(line));
  };
  const auto said = [&](const std::string& what) {
    return broker.WaitFor([&] {
      const std::lock_guard lock(mu);
      return ::testing::Matches(Contains(HasSubstr(what)))(lines);
    });
  };
  Client client(options);
  Guard guard = client.MakeMutex("a").Lock().value();
  EXPECT_TRUE(said("1 connected to " + broker.address()));
  broker.Break();
  EXPECT_TRUE(said("2 the stream to the broker ended"));
  const std::lock_guard lock(mu);
  EXPECT_THAT(lines, ::testing::Not(Contains(HasSubstr(guard.lease_id()))));
}

TEST(GuardTest, KnowsItsLock) {
  testing::Broker broker(std::chrono::seconds(20));
  Client client({.address = broker.address()});
  Result<Guard> found = client.MakeMutex("a", {.lock_namespace = "jobs"}).Lock();
  const Result<Guard>& result = found;
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->key(), "a");
  EXPECT_EQ((*result).lock_namespace(), "jobs");
  EXPECT_EQ(result.value().mode(), LockMode::kExclusive);
  EXPECT_GT(result->time_left(), std::chrono::seconds(1));
  EXPECT_LE(result->time_left(), std::chrono::seconds(20));
  EXPECT_EQ(found->Downgrade(), std::nullopt);
  EXPECT_EQ(result->mode(), LockMode::kShared);
  found->Release();
  EXPECT_EQ(result->time_left(), Duration::zero());
  Guard permits = client.MakeSemaphore("s", 4).Acquire(3).value();
  EXPECT_EQ(permits.mode(), LockMode::kPermit);
  EXPECT_EQ(permits.permits(), 3);
  EXPECT_EQ(permits.lock_namespace(), "default");
  EXPECT_EQ(Guard().key(), "");
  EXPECT_EQ(Guard().time_left(), Duration::zero());
}

TEST(TryLockUntil, WaitsByAnyClock) {
  testing::Broker broker;
  Client client({.address = broker.address()});
  Mutex mutex = client.MakeMutex("a");
  const auto before = std::chrono::steady_clock::now() - std::chrono::hours(1);
  EXPECT_TRUE(mutex.TryLockUntil(before).ok()) << "one try";
  broker.WaitFor([&] { return !broker.IsHeld("a"); });
  EXPECT_TRUE(mutex.TryLockUntil(std::chrono::system_clock::now() + std::chrono::seconds(30)).ok());
  broker.WaitFor([&] { return !broker.IsHeld("a"); });
  EXPECT_TRUE(mutex.TryLockUntil(std::chrono::steady_clock::time_point::max()).ok()) << "for ever";
  broker.WaitFor([&] { return !broker.IsHeld("a"); });
  EXPECT_TRUE(mutex.TryLockFor(Duration::max()).ok()) << "for ever";
}

TEST(CallbackTest, MovesAndIsEmptyLikeItsFunction) {
  std::function<int(int)> none;
  EXPECT_FALSE(Callback<int(int)>(none));
  EXPECT_TRUE(Callback<int(int)>(nullptr) == nullptr);
  auto big = [a = std::string(100, 'x'), b = std::make_unique<int>(2)](int more) {
    return static_cast<int>(a.size()) + *b + more;
  };
  Callback<int(int)> first = std::move(big);
  Callback<int(int)> second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT: what was moved from is empty
  EXPECT_EQ(second(3), 105);
  second = [](int value) { return value; };
  EXPECT_EQ(second(4), 4);
  EXPECT_THROW(Callback<void()>()(), std::bad_function_call);
}

}  // namespace
}  // namespace distlock
