// SPDX-License-Identifier: Apache-2.0
//
// A caller that is alone with its blocking calls waits for the sockets itself: what else is to happen happens all the
// same, and not on its thread.
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using testing::FakeBroker;

constexpr int kLongEnough = 20;  // so many calls in a row without company

class LoneCallerTest : public ::testing::Test {
 protected:
  void ComeAndGo(const std::string& key, int times = kLongEnough) {
    Mutex mutex = client_->MakeMutex(key);
    for (int i = 0; i < times; ++i) {
      Result<Guard> guard = mutex.Lock();
      ASSERT_TRUE(guard.ok());
      ASSERT_EQ(guard->Release(), ReleaseOutcome::kReleased);
    }
  }

  size_t Acquires() { return broker_.Count(v1::SessionCommand::kAcquire); }

  FakeBroker broker_;
  std::optional<Client> client_{ClientOptions{.address = broker_.address()}};
};

TEST_F(LoneCallerTest, RunsNoCallbackOfTheProgram) {
  for (int i = 0; i < 5; ++i) {
    const std::string key = "b" + std::to_string(i);
    broker_.Hold(key);
    std::thread::id told_on;
    absl::Notification told;
    client_->MakeMutex(key).LockAsync([&](const Result<Guard>& guard) {
      EXPECT_TRUE(guard.ok());
      told_on = std::this_thread::get_id();
      told.Notify();
    });
    ComeAndGo("a");
    broker_.Free(key);
    while (!told.HasBeenNotified()) ComeAndGo("a", 1);
    EXPECT_NE(told_on, std::this_thread::get_id());
  }
}

TEST_F(LoneCallerTest, HearsWhatItDoesNotWaitFor) {
  ComeAndGo("a");
  absl::Notification told;
  client_->MakeMutex("b").LockAsync([&](const Result<Guard>& guard) {
    EXPECT_TRUE(guard.ok());
    told.Notify();
  });
  told.WaitForNotification();
}

TEST_F(LoneCallerTest, GivesBackSeveralLocksAtTheEndOfTheirScope) {
  ComeAndGo("a");
  {
    const Guard first = client_->MakeMutex("a").Lock().value();
    const Guard second = client_->MakeMutex("b").Lock().value();
    const Guard third = client_->MakeMutex("c").Lock().value();
  }
  EXPECT_TRUE(broker_.WaitFor([](FakeBroker& broker) {
    return !broker.HeldByAnybody("a") && !broker.HeldByAnybody("b") && !broker.HeldByAnybody("c");
  }));
}

TEST_F(LoneCallerTest, ServesOthersWhileItWaitsForALongTime) {
  ComeAndGo("a");
  broker_.Hold("held");
  const size_t before = Acquires();
  std::thread waiter([&] { EXPECT_TRUE(client_->MakeMutex("held").Lock().ok()); });
  EXPECT_TRUE(broker_.WaitFor([&](FakeBroker&) { return Acquires() > before; }));
  ComeAndGo("a");
  broker_.Free("held");
  waiter.join();
}

TEST_F(LoneCallerTest, GetsCompanyAndIsAloneAgain) {
  for (int i = 0; i < 5; ++i) {
    ComeAndGo("a");
    std::vector<std::thread> others;
    for (const char* key : {"b", "c", "d", "e"}) others.emplace_back([this, key] { ComeAndGo(key); });
    ComeAndGo("a");
    for (std::thread& other : others) other.join();
  }
}

TEST_F(LoneCallerTest, IsToldThatItsClientIsGone) {
  ComeAndGo("a");
  Mutex mutex = client_->MakeMutex("a");
  broker_.Set([](FakeBroker::Behaviour& behaviour) { behaviour.grant = false; });
  const size_t before = Acquires();
  std::thread closer([&] {
    EXPECT_TRUE(broker_.WaitFor([&](FakeBroker&) { return Acquires() > before; }));
    client_.reset();
  });
  EXPECT_EQ(mutex.Lock().refusal().reason, RefusalReason::kClientClosed);
  closer.join();
}

TEST_F(LoneCallerTest, GoesOnThroughTheNextStream) {
  for (int i = 0; i < 5; ++i) {
    ComeAndGo("a");
    broker_.BreakStreams();
    ComeAndGo("b");
  }
}

}  // namespace
}  // namespace distlock
