// SPDX-License-Identifier: Apache-2.0
//
// A program's own tests with distlock::testing.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stop_token>

#include "distlock/client.h"
#include "distlock/testing/broker.h"

namespace distlock {
namespace {

TEST(TestingBroker, ABusyLock) {
  testing::Broker broker;
  Client client({.address = broker.address()});
  broker.Hold("a");
  EXPECT_EQ(client.MakeMutex("a").TryLock().refusal().reason, RefusalReason::kLockHeld);
  broker.Free("a");
  EXPECT_TRUE(client.MakeMutex("a").TryLock().ok());
  EXPECT_EQ(broker.acquires(), 2u);
}

TEST(TestingBroker, ABrokerThatDies) {
  testing::Broker broker;
  Client client({.address = broker.address()});
  Guard guard = client.MakeMutex("a").Lock().value();
  std::atomic<bool> stopped = false;
  const std::stop_callback on_loss(guard.stop_token(), [&] { stopped = true; });
  broker.Break();
  EXPECT_TRUE(broker.WaitFor([&] { return stopped.load(); }));
  EXPECT_EQ(guard.state(), LockState::kLost);
  EXPECT_TRUE(client.MakeMutex("a").Lock().ok()) << "it comes back";
}

TEST(TestingBroker, ABrokerThatFallsSilent) {
  testing::Broker broker(std::chrono::seconds(2));
  Client client({.address = broker.address()});
  Guard guard = client.MakeMutex("a").Lock().value();
  broker.AnswerHeartbeats(false);
  EXPECT_TRUE(broker.WaitFor([&] { return guard.state() == LockState::kLost; }));
  EXPECT_EQ(guard.end_cause(), EndCause::kLapsed);
}

TEST(TestingBroker, ABrokerThatDrains) {
  testing::Broker broker;
  std::atomic<bool> told = false;
  ClientOptions options{.address = broker.address()};
  options.on_draining = [&](Duration) { told = true; };
  Client client(options);
  Guard guard = client.MakeMutex("a").Lock().value();
  broker.Drain();
  EXPECT_TRUE(broker.WaitFor([&] { return told.load(); }));
  EXPECT_NE(guard.state(), LockState::kLost);
}

}  // namespace
}  // namespace distlock
