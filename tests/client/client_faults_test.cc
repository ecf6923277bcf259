// SPDX-License-Identifier: Apache-2.0
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "distlock/client.h"
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

ClientOptions Options(const FakeBroker& broker) {
  return {.address = broker.address(), .reconnect_initial = milliseconds(5), .reconnect_max = milliseconds(50)};
}

// Expects that the lock ends with `cause`, and that state() never says held after the deadline.
void ExpectLost(const Guard& guard, std::stop_token stop, EndCause cause) {
  while (true) {
    const int64_t deadline = guard.valid_until();
    const LockState state = guard.state();
    const int64_t now = BootNow();
    if (state == LockState::kLost) break;
    ASSERT_LT(now, deadline + 20'000'000'000) << "never lost";
    std::this_thread::yield();
  }
  while (!stop.stop_requested()) std::this_thread::yield();
  EXPECT_EQ(guard.end_cause(), cause);
}

TEST(Faults, UnansweredHeartbeatsAreARiskThenLostByTheOwnClock) {
  FakeBroker broker(FakeBroker::Behaviour{.validity_ms = 1500});
  Client client(Options(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  broker.Set([](FakeBroker::Behaviour& b) { b.answer_heartbeats = false; });
  ASSERT_TRUE(broker.WaitFor([&](FakeBroker&) { return guard.state() != LockState::kHeld; }));
  ExpectLost(guard, guard.stop_token(), EndCause::kLapsed);
  broker.Set([](FakeBroker::Behaviour& b) { b.answer_heartbeats = true; });
  EXPECT_TRUE(client.MakeMutex("b").Lock().ok()) << "through a new stream";
  EXPECT_GE(broker.Streams(), 2u);
  EXPECT_EQ(guard.state(), LockState::kLost);
}

// state() must notice the deadline by itself, without a thread of the library.
TEST(Faults, StateKnowsTheDeadlineWithoutAnyThread) {
  FakeBroker broker(FakeBroker::Behaviour{.validity_ms = 1000, .answer_heartbeats = false});
  Client client(Options(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  const int64_t deadline = guard.valid_until();
  while (true) {
    const LockState state = guard.state();
    if (state == LockState::kLost) break;
    ASSERT_LT(BootNow(), deadline + 20'000'000'000);
  }
  EXPECT_GE(BootNow(), deadline);
}

TEST(Faults, LimitsOfAnAckEndTheLeaseAlone) {
  FakeBroker broker(FakeBroker::Behaviour{.validity_ms = 1500});
  Client client(Options(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  broker.Set([](FakeBroker::Behaviour& b) { b.limit_ms = 0; });
  ExpectLost(guard, guard.stop_token(), EndCause::kLapsed);
  EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kRelease) == 1; }));
  EXPECT_EQ(broker.Streams(), 1u);
}

TEST(Faults, BrokenStreamLosesAtOnceAndWaitsGoOn) {
  FakeBroker broker;
  Client client(Options(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  broker.Hold("b");
  absl::Notification granted;
  client.MakeMutex("b").TryLockForAsync(seconds(100), [&](Result<Guard> result) {
    EXPECT_TRUE(result.ok());
    granted.Notify();
  });
  ASSERT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAcquire) == 2; }));
  const int64_t deadline = guard.valid_until();
  broker.BreakStreams();
  ExpectLost(guard, guard.stop_token(), EndCause::kDisconnected);
  EXPECT_LT(BootNow(), deadline) << "at once, not at the deadline";
  ASSERT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAcquire) == 3; }));
  const v1::LockSpec again = broker.Commands(SessionCommand::kAcquire).back().acquire().locks(0);
  EXPECT_LT(again.max_wait().seconds(), 100) << "what is left of it";
  broker.Free("b");
  granted.WaitForNotification();
}

TEST(Faults, WaitsMayFailInsteadOfGoingOn) {
  FakeBroker broker;
  ClientOptions options = Options(broker);
  options.reissue_waits = false;
  Client client(options);
  broker.Hold("a");
  std::thread breaker([&] {
    EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAcquire) == 1; }));
    broker.BreakStreams();
  });
  EXPECT_EQ(client.MakeMutex("a").Lock().refusal().reason, RefusalReason::kUnreachable);
  breaker.join();
}

TEST(Faults, BrokerGoesAndComesBack) {
  const testing::Folder folder;
  const std::string address = "unix://" + folder.path() + "/broker.sock";
  std::optional<FakeBroker> first(std::in_place, address);
  Client client(Options(*first));
  Guard guard = client.MakeMutex("a").Lock().value();
  const std::stop_token stop = guard.stop_token();
  std::thread releaser([&] {
    while (!stop.stop_requested()) std::this_thread::yield();
    EXPECT_EQ(guard.Release(), ReleaseOutcome::kAlreadyGone);
  });
  first.reset();
  releaser.join();
  EXPECT_EQ(guard.state(), LockState::kLost);
  EXPECT_EQ(client.MakeMutex("a").TryLockFor(milliseconds(50)).refusal().reason, RefusalReason::kUnreachable);
  std::thread waiter([&] { EXPECT_TRUE(client.MakeMutex("a").Lock().ok()); });
  FakeBroker second(address);
  waiter.join();
}

TEST(Faults, ReleaseWithoutAnswerIsUnknown) {
  FakeBroker broker(FakeBroker::Behaviour{.answer_releases = false});
  Client client(Options(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  std::thread breaker([&] {
    EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kRelease) == 1; }));
    broker.BreakStreams();
  });
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kUnknown);
  EXPECT_EQ(guard.state(), LockState::kReleased);
  breaker.join();
}

TEST(Faults, NobodyThere) {
  ClientOptions options{.address = "unix:///tmp/distlock-nobody-listens-here.sock"};
  options.unreachable_timeout = milliseconds(200);
  Client client(options);
  for (const Result<Guard>& guard : {client.MakeMutex("a").Lock(), client.MakeMutex("a").TryLock()}) {
    ASSERT_FALSE(guard.ok());
    EXPECT_EQ(guard.refusal().reason, RefusalReason::kUnreachable);
    EXPECT_NE(guard.refusal().message.find(options.address), std::string::npos) << guard.refusal().message;
  }
}

TEST(Faults, OneTryLooksForABrokerForASecond) {
  Client client({.address = "unix:///tmp/distlock-nobody-listens-here.sock"});
  const Result<Guard> guard = client.MakeMutex("a").TryLock();
  ASSERT_FALSE(guard.ok());
  EXPECT_EQ(guard.refusal().reason, RefusalReason::kUnreachable);
  EXPECT_NE(guard.refusal().message.find("within 1"), std::string::npos) << guard.refusal().message;
  EXPECT_EQ(guard.refusal().message.find("within 10000"), std::string::npos) << guard.refusal().message;
}

TEST(Faults, CancelWhileNobodyIsThere) {
  Client client({.address = "unix:///tmp/distlock-nobody-listens-here.sock"});
  std::stop_source stop;
  std::thread canceller([&] { stop.request_stop(); });
  EXPECT_EQ(client.MakeMutex("a").Lock(stop.get_token()).refusal().reason, RefusalReason::kCancelled);
  canceller.join();
}

TEST(Faults, NotAllowedIsSaidAtOnce) {
  FakeBroker broker(FakeBroker::Behaviour{.open_status = {grpc::StatusCode::PERMISSION_DENIED, "not you"}});
  Client client(Options(broker));
  const Result<Guard> guard = client.MakeMutex("a").Lock();
  EXPECT_EQ(guard.refusal().reason, RefusalReason::kPermissionDenied);
  EXPECT_EQ(guard.refusal().message, "not you");
}

TEST(Faults, OpenWithoutAnswerIsTriedAgain) {
  FakeBroker broker(FakeBroker::Behaviour{.answer_open = false, .grant = false});
  ClientOptions options = Options(broker);
  options.connect_timeout = milliseconds(100);
  Client client(options);
  ASSERT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Streams() >= 2; }));
  broker.Set([](FakeBroker::Behaviour& b) { b.answer_open = b.grant = true; });
  EXPECT_TRUE(client.MakeMutex("a").Lock().ok());
}

TEST(Faults, DrainingBrokerIsLeft) {
  FakeBroker broker(FakeBroker::Behaviour{.draining = true});
  ClientOptions options = Options(broker);
  absl::Notification told;
  options.on_draining = [&](Duration) {
    if (!told.HasBeenNotified()) told.Notify();
  };
  Client client(options);
  std::thread other_broker([&] {
    EXPECT_TRUE(broker.WaitFor([&](FakeBroker& b) { return b.Streams() >= 2; }));
    broker.Set([](FakeBroker::Behaviour& b) { b.draining = false; });
  });
  Guard guard = client.MakeMutex("a").Lock().value();
  other_broker.join();
  EXPECT_GE(broker.Count(SessionCommand::kGoodbye), 1u);

  v1::SessionEvent draining;
  draining.mutable_draining()->mutable_time_left()->set_seconds(30);
  broker.Send(draining);
  told.WaitForNotification();
  EXPECT_TRUE(client.draining());
  EXPECT_EQ(guard.state(), LockState::kHeld);
  broker.Set([](FakeBroker::Behaviour& b) { b.draining = true; });
  EXPECT_EQ(client.MakeMutex("b").Lock().refusal().reason, RefusalReason::kDraining) << "a lock ties us to it";
}

TEST(Faults, DestructionWithABrokerThatDoesNotAnswerIsBounded) {
  FakeBroker broker(FakeBroker::Behaviour{.answer_open = false, .grant = false});
  std::optional<Client> client(std::in_place, Options(broker));
  absl::Notification refused;
  client->MakeMutex("a").LockAsync([&](Result<Guard> result) {
    EXPECT_EQ(result.refusal().reason, RefusalReason::kClientClosed);
    refused.Notify();
  });
  client.reset();
  EXPECT_TRUE(refused.HasBeenNotified());
}

TEST(Faults, ManyClientsComeAndGo) {
  FakeBroker broker;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&broker, t] {
      for (int i = 0; i < 20; ++i) {
        Client client(Options(broker));
        const bool ok = i % 2 != 0 || client.MakeMutex(std::to_string(t)).Lock().ok();
        EXPECT_TRUE(ok);
        if (i % 5 == 0) client.MakeMutex("x").LockAsync([](Result<Guard>) {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// For an hour this client sends only commands of the program.
FakeBroker::Behaviour Quiet() { return {.validity_ms = 7'200'000, .heartbeat_interval_ms = 3'600'000}; }
ClientOptions Patient(const FakeBroker& broker) {
  return {.address = broker.address(),
          .unreachable_timeout = std::chrono::hours(1),
          .connect_timeout = std::chrono::hours(1)};
}

// The caller of state() may hold a mutex that the program's callbacks take.
TEST(Faults, LookingAtALockRunsNoCallbacks) {
  FakeBroker broker(FakeBroker::Behaviour{.validity_ms = 1000, .answer_heartbeats = false});
  Client client(Options(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  std::atomic<std::thread::id> told_on{};
  const std::stop_callback on_end(guard.stop_token(), [&] { told_on = std::this_thread::get_id(); });
  while (guard.state() != LockState::kLost) {
  }
  while (told_on.load() == std::thread::id()) std::this_thread::yield();
  EXPECT_NE(told_on.load(), std::this_thread::get_id());
}

TEST(Faults, AReleaseLeavesBeforeItsEndIsTold) {
  FakeBroker broker(Quiet());
  Client client(Patient(broker));
  Guard guard = client.MakeMutex("a").Lock().value();
  bool arrived = false;
  const std::stop_callback on_end(guard.stop_token(), [&] {
    arrived = broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kRelease) == 1; });
  });
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kReleased);
  EXPECT_TRUE(arrived);
}

// Until the end of the scope this process cannot open another descriptor.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(STDERR_FILENO);
    ::close(lowest_free);
    const rlimit none{static_cast<rlim_t>(lowest_free), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Faults, WithoutADescriptorTheConstructorThrowsAndNothingElseIsHurt) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer looks at a vptr through a pipe, so it needs descriptors of its own";
#endif
  FakeBroker broker;
  Client first(Options(broker));
  ASSERT_TRUE(first.MakeMutex("a").Lock().ok());
  {
    const NoMoreDescriptors here;
    EXPECT_THROW(Client{Options(broker)}, std::system_error);
    EXPECT_TRUE(first.MakeMutex("a").Lock().ok());
  }
  Client second(Options(broker));
  EXPECT_TRUE(second.MakeMutex("a").Lock().ok());
}

// The answer of a proxy while the broker behind it is being replaced.
TEST(Faults, UnimplementedByAProxyIsNotTheBrokersWord) {
  FakeBroker broker(FakeBroker::Behaviour{.open_status = {grpc::StatusCode::UNIMPLEMENTED, "HTTP status 404"}});
  Client client(Options(broker));
  std::thread roll_out([&] {
    EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Streams() >= 3; }));
    broker.Set([](FakeBroker::Behaviour& b) { b.open_status = grpc::Status::OK; });
  });
  const Result<Guard> guard = client.MakeMutex("a").Lock();
  EXPECT_TRUE(guard.ok()) << guard.refusal().message;
  roll_out.join();
}

TEST(Faults, NotSupportedByTheBrokerIsSaidAtOnce) {
  FakeBroker broker(FakeBroker::Behaviour{
      .open_status = testing::StatusWith(grpc::StatusCode::UNIMPLEMENTED, "not in this mode", "NOT_SUPPORTED")});
  Client client(Options(broker));
  const Result<Guard> guard = client.MakeMutex("a").Lock();
  EXPECT_EQ(guard.refusal().reason, RefusalReason::kNotSupported);
  EXPECT_EQ(guard.refusal().message, "not in this mode");
}

TEST(Faults, EndlessPatienceIsNoOverflow) {
  FakeBroker broker;
  ClientOptions options = Options(broker);
  options.connect_timeout = options.unreachable_timeout = Duration::max();
  Client client(options);
  EXPECT_TRUE(client.MakeMutex("a").Lock().ok());
  EXPECT_EQ(broker.Streams(), 1u);
}

}  // namespace
}  // namespace distlock
