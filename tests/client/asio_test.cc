// SPDX-License-Identifier: Apache-2.0
#include "distlock/asio.h"

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "distlock/testing/broker.h"

namespace distlock {
namespace {

class AsioTest : public ::testing::Test {
 protected:
  testing::Broker broker_;
  std::optional<Client> client_{ClientOptions{.address = broker_.address()}};
  asio::io_context io_;
};

TEST_F(AsioTest, ACallbackRunsInTheContext) {
  const auto here = std::this_thread::get_id();
  std::optional<Guard> guard;
  bool ran_here = false;
  AsyncLock(client_->MakeMutex("a"),
            asio::bind_executor(io_, [&, moves_only = std::make_unique<int>(1)](Result<Guard> answer) {
              ran_here = std::this_thread::get_id() == here;
              if (answer.ok()) guard = std::move(answer).value();
            }));
  io_.run();  // the wait is work: this does not return before the answer
  EXPECT_TRUE(ran_here);
  ASSERT_TRUE(guard.has_value());
  EXPECT_EQ(guard->key(), "a");
}

asio::awaitable<ReleaseOutcome> LockAndRelease(Client& client) {
  Mutex mutex = client.MakeMutex("a");
  Result<Guard> guard = co_await AsyncLock(mutex, asio::use_awaitable);
  if (!guard.ok()) co_return ReleaseOutcome::kUnknown;
  co_return co_await AsyncRelease(*guard, asio::use_awaitable);
}

TEST_F(AsioTest, ACoroutineOfAsio) {
  ReleaseOutcome outcome = ReleaseOutcome::kUnknown;
  asio::co_spawn(io_, LockAndRelease(*client_), [&](const std::exception_ptr& error, ReleaseOutcome answer) {
    EXPECT_EQ(error, nullptr);
    outcome = answer;
  });
  io_.run();
  EXPECT_EQ(outcome, ReleaseOutcome::kReleased);
}

TEST_F(AsioTest, ACancellationWithdrawsTheWait) {
  broker_.Hold("a");
  asio::cancellation_signal signal;
  std::optional<RefusalReason> why;
  asio::post(io_, [&] {
    AsyncLock(client_->MakeMutex("a"),
              asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(io_, [&](Result<Guard> answer) {
                                             why = answer.ok() ? RefusalReason::kUnspecified : answer.refusal().reason;
                                           })));
    asio::post(io_, [&] { signal.emit(asio::cancellation_type::terminal); });
  });
  io_.run();
  EXPECT_EQ(why, RefusalReason::kCancelled);
}

TEST_F(AsioTest, AFuture) {
  auto future = AsyncAcquire(client_->MakeSemaphore("s", 2), 1, asio::use_future);
  EXPECT_TRUE(future.get().ok());
}

}  // namespace
}  // namespace distlock
