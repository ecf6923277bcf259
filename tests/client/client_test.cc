// SPDX-License-Identifier: Apache-2.0
#include "distlock/client.h"

#include <absl/synchronization/notification.h>
#include <gmock/gmock.h>
#include <time.h>

#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "fake_broker.h"

namespace distlock {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeBroker;
using v1::SessionCommand;

int64_t BootNow() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

class ClientTest : public ::testing::Test {
 protected:
  FakeBroker broker_;
  std::optional<Client> client_{ClientOptions{.address = broker_.address(), .client_label = "test"}};
};

TEST_F(ClientTest, LockAndRelease) {
  Mutex mutex = client_->MakeMutex("a", {.owner = "me"});
  Result<Guard> guard = mutex.Lock();
  ASSERT_TRUE(guard.ok());
  EXPECT_EQ(guard->state(), LockState::kHeld);
  EXPECT_EQ(guard->end_cause(), EndCause::kNotEnded);
  EXPECT_EQ(guard->token(), 101);
  EXPECT_EQ(guard->holder_id(), "holder-101");
  EXPECT_EQ(guard->lease_id(), "secret-101");
  EXPECT_GT(guard->valid_until(), BootNow());
  EXPECT_TRUE(client_->connected());
  const std::stop_token stop = guard->stop_token();
  EXPECT_FALSE(stop.stop_requested());

  EXPECT_EQ(guard->Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(guard->state(), LockState::kReleased);
  EXPECT_EQ(guard->end_cause(), EndCause::kReleased);
  EXPECT_EQ(guard->Release(), ReleaseOutcome::kAlreadyGone);
  EXPECT_TRUE(guard->stop_token().stop_requested()) << "also when asked for afterwards";
}

TEST_F(ClientTest, GuardReleasesWhenItGoes) {
  {
    Result<Guard> guard = client_->MakeMutex("a").Lock();
    ASSERT_TRUE(guard.ok());
    Guard moved = std::move(*guard);
    EXPECT_EQ(moved.state(), LockState::kHeld);
    EXPECT_TRUE(broker_.HeldByAnybody("a"));
  }
  EXPECT_TRUE(broker_.WaitFor([](FakeBroker& b) { return !b.HeldByAnybody("a"); }));
}

TEST_F(ClientTest, AssigningToAGuardReleasesWhatItHeld) {
  Guard guard = client_->MakeMutex("a").Lock().value();
  guard = client_->MakeMutex("b").Lock().value();
  EXPECT_TRUE(broker_.WaitFor([](FakeBroker& b) { return !b.HeldByAnybody("a"); }));
  guard = Guard();
  EXPECT_EQ(guard.state(), LockState::kReleased);
  EXPECT_TRUE(broker_.WaitFor([](FakeBroker& b) { return !b.HeldByAnybody("b"); }));
}

TEST_F(ClientTest, OneTryIsRefusedWithTheHolder) {
  broker_.Hold("a");
  const Result<Guard> guard = client_->MakeMutex("a").TryLock();
  ASSERT_FALSE(guard.ok());
  EXPECT_EQ(guard.refusal().reason, RefusalReason::kLockHeld);
  ASSERT_EQ(guard.refusal().holders.size(), 1u);
  EXPECT_EQ(guard.refusal().holders[0].owner, "somebody");
}

TEST_F(ClientTest, WaitsItsTurn) {
  broker_.Hold("a");
  std::atomic<int32_t> position{99};
  Mutex mutex = client_->MakeMutex("a", {.on_queued = [&](const QueuedInfo& info) { position = info.position; }});
  std::thread freer([&] {
    EXPECT_TRUE(broker_.WaitFor([&](FakeBroker&) { return position == 0; }));
    broker_.Free("a");
  });
  EXPECT_TRUE(mutex.Lock().ok());
  freer.join();
}

TEST_F(ClientTest, TheSpecArrivesAsAsked) {
  Mutex mutex(*client_, "k",
              {.lock_namespace = "ns",
               .ttl = seconds(5),
               .max_hold = milliseconds(90'500),
               .lock_delay = seconds(2),
               .on_disconnect = OnDisconnect::kExpire,
               .owner = "me",
               .metadata = {{"host", "h1"}}});
  ASSERT_TRUE(mutex.TryLockFor(milliseconds(1500)).ok());
  const v1::LockSpec spec = broker_.Commands(SessionCommand::kAcquire).at(0).acquire().locks(0);
  EXPECT_EQ(spec.namespace_(), "ns");
  EXPECT_EQ(spec.ttl().seconds(), 5);
  EXPECT_EQ(spec.max_hold().nanos(), 500'000'000);
  EXPECT_EQ(spec.lock_delay().seconds(), 2);
  EXPECT_EQ(spec.on_disconnect(), v1::ON_DISCONNECT_EXPIRE);
  EXPECT_EQ(spec.metadata().at("host"), "h1");
  EXPECT_EQ(spec.max_wait().seconds(), 1);
  EXPECT_EQ(broker_.Commands(SessionCommand::kOpen).at(0).open().client(), "test");
}

TEST_F(ClientTest, LostByTheBrokersWord) {
  Guard guard = client_->MakeMutex("a").Lock().value();
  absl::Notification stopped;
  std::stop_callback on_stop(guard.stop_token(), [&] { stopped.Notify(); });
  v1::SessionEvent lost;
  lost.set_id(broker_.LastAcquireId());
  lost.mutable_lost()->set_reason(v1::LOST_REASON_FORCED);
  lost.mutable_lost()->set_message("by the administrator");
  broker_.Send(lost);
  stopped.WaitForNotification();
  EXPECT_EQ(guard.state(), LockState::kLost);
  EXPECT_EQ(guard.end_cause(), EndCause::kForced);
  EXPECT_EQ(guard.end_message(), "by the administrator");
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(guard.state(), LockState::kLost);
}

TEST_F(ClientTest, AtRiskAndSafeAgain) {
  Guard guard = client_->MakeMutex("a").Lock().value();
  v1::SessionEvent event;
  event.set_id(broker_.LastAcquireId());
  event.mutable_at_risk()->set_cause("the store does not answer");
  broker_.Send(event);
  EXPECT_TRUE(broker_.WaitFor([&](FakeBroker&) { return guard.state() == LockState::kAtRisk; }));
  event.mutable_renewed();
  broker_.Send(event);
  EXPECT_TRUE(broker_.WaitFor([&](FakeBroker&) { return guard.state() == LockState::kHeld; }));
}

TEST_F(ClientTest, CancelledWait) {
  broker_.Hold("a");
  std::stop_source stop;
  std::thread canceller([&] {
    EXPECT_TRUE(broker_.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAcquire) == 1; }));
    stop.request_stop();
  });
  const Result<Guard> guard = client_->MakeMutex("a").Lock(stop.get_token());
  canceller.join();
  ASSERT_FALSE(guard.ok());
  EXPECT_EQ(guard.refusal().reason, RefusalReason::kCancelled);
  EXPECT_TRUE(broker_.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kCancel) == 1; }));
  EXPECT_FALSE(client_->MakeMutex("b").Lock(stop.get_token()).ok()) << "stopped before it began";
}

// The broker gives it back: it hears of the cancel after the grant.
TEST_F(ClientTest, AGrantThatCrossesTheCancelIsNotHandedOut) {
  broker_.Set([](FakeBroker::Behaviour& b) { b.grant = b.answer_cancels = false; });
  absl::Notification done;
  RefusalReason reason = RefusalReason::kUnspecified;
  PendingLock pending = client_->MakeMutex("a").LockAsync([&](Result<Guard> result) {
    if (!result.ok()) reason = result.refusal().reason;
    done.Notify();
  });
  ASSERT_TRUE(broker_.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAcquire) == 1; }));
  pending.Cancel();
  pending.Cancel();
  v1::SessionEvent granted;
  granted.set_id(broker_.LastAcquireId());
  granted.mutable_granted()->mutable_valid_for()->set_seconds(3);
  broker_.Send(granted);
  done.WaitForNotification();
  EXPECT_EQ(reason, RefusalReason::kCancelled);
  EXPECT_TRUE(broker_.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kCancel) == 1; }));
}

TEST_F(ClientTest, StaleGrantIsDeliveredOnceItIsUseful) {
  broker_.Set([](FakeBroker::Behaviour& b) { b.grant_stale = true; });
  Guard guard = client_->MakeMutex("a").Lock().value();
  EXPECT_EQ(guard.state(), LockState::kHeld);
  EXPECT_GE(broker_.Count(SessionCommand::kHeartbeat), 1u);
}

TEST_F(ClientTest, DestructionSaysGoodbyeAndEndsEverything) {
  broker_.Hold("b");
  Guard guard = client_->MakeMutex("a").Lock().value();
  absl::Notification refused;
  RefusalReason reason = RefusalReason::kUnspecified;
  Mutex mutex = client_->MakeMutex("b");
  mutex.LockAsync([&](Result<Guard> result) {
    reason = result.refusal().reason;
    refused.Notify();
  });
  const std::stop_token stop = guard.stop_token();
  client_.reset();
  refused.WaitForNotification();
  EXPECT_EQ(reason, RefusalReason::kClientClosed);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_EQ(guard.state(), LockState::kLost);
  EXPECT_EQ(guard.end_cause(), EndCause::kClientClosed);
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(mutex.Lock().refusal().reason, RefusalReason::kClientClosed);
  EXPECT_EQ(broker_.Count(SessionCommand::kGoodbye), 1u);
}

TEST_F(ClientTest, BlockingInACallbackIsRefusedAndAsyncWorks) {
  Mutex mutex = client_->MakeMutex("a");
  Mutex other = client_->MakeMutex("b");
  absl::Notification done;
  mutex.LockAsync([&](Result<Guard> guard) {
    EXPECT_EQ(other.Lock().refusal().reason, RefusalReason::kWouldDeadlock);
    guard->ReleaseAsync([&](ReleaseOutcome outcome) {
      EXPECT_EQ(outcome, ReleaseOutcome::kReleased);
      other.LockAsync([&](Result<Guard> second) {
        EXPECT_TRUE(second.ok());
        EXPECT_EQ(second->Release(), ReleaseOutcome::kUnknown);
        done.Notify();
      });
    });
  });
  done.WaitForNotification();
}

TEST_F(ClientTest, ClientLockAsync) {
  absl::Notification done;
  client_->LockAsync({.key = "a", .options = {}}, [&](Result<Guard> guard) {
    EXPECT_TRUE(guard.ok());
    done.Notify();
  });
  done.WaitForNotification();
}

TEST(Address, ComesFromTheEnvironment) {
  ::setenv("DISTLOCK_SERVER", "unix:///tmp/nobody.sock", 1);
  EXPECT_EQ(DefaultAddress(), "unix:///tmp/nobody.sock");
  ::unsetenv("DISTLOCK_SERVER");
  EXPECT_FALSE(DefaultAddress().empty());
}

TEST(TokenFile, IsReadAtTheStartAndNamedWhenItCannotBe) {
  const auto fault = [](const std::string& address) -> std::string {
    try {
      Client client({.address = address, .token_file = "/no/such/token"});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(fault("unix:///tmp/nobody.sock"), ::testing::HasSubstr("token_file: '/no/such/token'"));
  EXPECT_EQ(fault("192.0.2.1:1"), "none") << "in plain text a token leaves this machine for nobody";
}

}  // namespace
}  // namespace distlock
