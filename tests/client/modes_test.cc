// SPDX-License-Identifier: Apache-2.0
//
// The requests of RwLock and Semaphore, from each of their waits.
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using testing::FakeBroker;
using v1::SessionCommand;

// Bounds waits that should end at once.
constexpr auto kPatience = std::chrono::seconds(60);

enum class Waits { kUntilGranted, kOneTry, kBounded };

Waits WaitsOf(const v1::LockSpec& spec) {
  if (!spec.has_max_wait()) return Waits::kUntilGranted;
  return spec.max_wait().seconds() == 0 && spec.max_wait().nanos() == 0 ? Waits::kOneTry : Waits::kBounded;
}

class ModesTest : public ::testing::Test {
 protected:
  using Async = std::function<PendingLock(LockCallback)>;

  // The last spec that arrived.
  v1::LockSpec Asked() { return broker_.Commands(SessionCommand::kAcquire).back().acquire().locks(0); }

  void ExpectAsked(const Result<Guard>& guard, v1::LockMode mode, Waits waits) {
    ASSERT_TRUE(guard.ok()) << guard.refusal().message;
    EXPECT_EQ(Asked().mode(), mode);
    EXPECT_EQ(WaitsOf(Asked()), waits);
  }

  static Result<Guard> Answer(const Async& start) {
    std::optional<Result<Guard>> answer;
    absl::Notification done;
    start([&](Result<Guard> result) {
      answer.emplace(std::move(result));
      done.Notify();
    });
    done.WaitForNotification();
    return *std::move(answer);
  }

  FakeBroker broker_;
  Client client_{ClientOptions{.address = broker_.address()}};
};

TEST_F(ModesTest, ReadersAskForShared) {
  RwLock lock =
      client_.MakeRwLock("k", {.lock_namespace = "ns", .policy = QueuePolicy::kReaderPreferring, .owner = "me"});
  ExpectAsked(lock.ReadLock(), v1::LOCK_MODE_SHARED, Waits::kUntilGranted);
  EXPECT_EQ(Asked().namespace_(), "ns");
  EXPECT_EQ(Asked().key(), "k");
  EXPECT_EQ(Asked().owner(), "me");
  EXPECT_EQ(Asked().policy(), v1::QUEUE_POLICY_READER_PREFERRING);
  EXPECT_EQ(Asked().permits(), 0);
  EXPECT_EQ(Asked().limit(), 0);
  ExpectAsked(lock.TryReadLock(), v1::LOCK_MODE_SHARED, Waits::kOneTry);
  ExpectAsked(lock.TryReadLockFor(kPatience), v1::LOCK_MODE_SHARED, Waits::kBounded);
  const auto shared = v1::LOCK_MODE_SHARED;
  ExpectAsked(Answer([&](LockCallback tell) { return lock.ReadLockAsync(std::move(tell)); }), shared,
              Waits::kUntilGranted);
  ExpectAsked(Answer([&](LockCallback tell) { return lock.TryReadLockAsync(std::move(tell)); }), shared,
              Waits::kOneTry);
  ExpectAsked(Answer([&](LockCallback tell) { return lock.TryReadLockForAsync(kPatience, std::move(tell)); }), shared,
              Waits::kBounded);
}

TEST_F(ModesTest, WritersAskForExclusive) {
  RwLock lock = client_.MakeRwLock("k", {.policy = QueuePolicy::kWriterPreferring});
  const auto exclusive = v1::LOCK_MODE_EXCLUSIVE;
  ExpectAsked(lock.WriteLock(), exclusive, Waits::kUntilGranted);
  EXPECT_EQ(Asked().policy(), v1::QUEUE_POLICY_WRITER_PREFERRING);
  ExpectAsked(lock.TryWriteLock(), exclusive, Waits::kOneTry);
  ExpectAsked(lock.TryWriteLockFor(kPatience), exclusive, Waits::kBounded);
  ExpectAsked(Answer([&](LockCallback tell) { return lock.WriteLockAsync(std::move(tell)); }), exclusive,
              Waits::kUntilGranted);
  ExpectAsked(Answer([&](LockCallback tell) { return lock.TryWriteLockAsync(std::move(tell)); }), exclusive,
              Waits::kOneTry);
  ExpectAsked(Answer([&](LockCallback tell) { return lock.TryWriteLockForAsync(kPatience, std::move(tell)); }),
              exclusive, Waits::kBounded);
}

TEST_F(ModesTest, SemaphoresAskForPermitsOutOfTheirLimit) {
  Semaphore semaphore = client_.MakeSemaphore("k", 5, {.max_wait = kPatience, .owner = "me"});
  const auto permit = v1::LOCK_MODE_PERMIT;
  ExpectAsked(semaphore.Acquire(), permit, Waits::kBounded);
  EXPECT_EQ(Asked().permits(), 1);
  EXPECT_EQ(Asked().limit(), 5);
  ExpectAsked(semaphore.Acquire(3), permit, Waits::kBounded);
  EXPECT_EQ(Asked().permits(), 3);
  EXPECT_EQ(Asked().limit(), 5);
  EXPECT_EQ(Asked().owner(), "me") << "all else is the same";
  ExpectAsked(semaphore.TryAcquire(5), permit, Waits::kOneTry);
  EXPECT_EQ(Asked().permits(), 5);
  ExpectAsked(semaphore.TryAcquireFor(kPatience, 2), permit, Waits::kBounded);
  EXPECT_EQ(Asked().permits(), 2);
  ExpectAsked(Answer([&](LockCallback tell) { return semaphore.AcquireAsync(std::move(tell), 4); }), permit,
              Waits::kBounded);
  EXPECT_EQ(Asked().permits(), 4);
  ExpectAsked(Answer([&](LockCallback tell) { return semaphore.TryAcquireAsync(std::move(tell)); }), permit,
              Waits::kOneTry);
  EXPECT_EQ(Asked().permits(), 1);
  ExpectAsked(Answer([&](LockCallback tell) { return semaphore.TryAcquireForAsync(kPatience, std::move(tell), 2); }),
              permit, Waits::kBounded);
  EXPECT_EQ(Asked().permits(), 2);
}

TEST_F(ModesTest, NoPermitsAreRefusedBeforeTheWireTakesThemForOne) {
  const Result<Guard> guard = client_.MakeSemaphore("k", 5).Acquire(0);
  ASSERT_FALSE(guard.ok());
  EXPECT_EQ(guard.refusal().reason, RefusalReason::kInvalidArgument);
  ASSERT_EQ(guard.refusal().field_problems.size(), 1u);
  EXPECT_EQ(guard.refusal().field_problems[0].field, "lock.permits");
  EXPECT_EQ(broker_.Count(SessionCommand::kAcquire), 0u);
}

TEST_F(ModesTest, NegativeNumbersAreTheBrokersToRefuse) {
  (void)client_.MakeSemaphore("k", -5).TryAcquire(-1);
  EXPECT_EQ(Asked().permits(), -1);
  EXPECT_EQ(Asked().limit(), -5);
}

TEST_F(ModesTest, WhatIsWrongWithTheNameIsSaidOfEveryNumberOfPermits) {
  Semaphore semaphore = client_.MakeSemaphore("\xff", 5);
  for (const int32_t permits : {0, 1, 2}) {
    const Result<Guard> guard = semaphore.TryAcquire(permits);
    ASSERT_FALSE(guard.ok());
    EXPECT_EQ(guard.refusal().field_problems.at(0).field, "lock.key");
  }
}

TEST_F(ModesTest, ARefusalSaysHowTheLockIsHeld) {
  const Result<Guard> holder = client_.MakeMutex("k").Lock();
  const Result<Guard> refused = client_.MakeRwLock("k").TryReadLock();
  ASSERT_FALSE(refused.ok());
  ASSERT_EQ(refused.refusal().holders.size(), 1u);
  EXPECT_EQ(refused.refusal().holders[0].mode, LockMode::kExclusive) << "this broker does not say";
}

TEST_F(ModesTest, FromACallbackOnlyTheAsyncFormsWork) {
  absl::Notification done;
  client_.MakeRwLock("a").ReadLockAsync([&](Result<Guard>) {
    const Result<Guard> blocking = client_.MakeSemaphore("b", 2).Acquire();
    EXPECT_FALSE(blocking.ok());
    EXPECT_EQ(blocking.refusal().reason, RefusalReason::kWouldDeadlock);
    done.Notify();
  });
  done.WaitForNotification();
}

TEST(ModeNames, AreThoseOfTheWire) {
  for (const LockMode mode : {LockMode::kExclusive, LockMode::kShared, LockMode::kPermit}) {
    const auto wire = static_cast<v1::LockMode>(mode);
    EXPECT_EQ("LOCK_MODE_" + std::string(Name(mode)), v1::LockMode_Name(wire));
  }
}

}  // namespace
}  // namespace distlock
