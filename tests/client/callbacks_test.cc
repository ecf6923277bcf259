// SPDX-License-Identifier: Apache-2.0
//
// The thread of each callback: never the caller's, which may hold a mutex that the callback takes.
#include <absl/synchronization/notification.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using testing::FakeBroker;

constexpr char kNobody[] = "unix:///tmp/distlock-nobody-listens-here.sock";

// A callback that records its thread.
class Told {
 public:
  template <class T>
  std::function<void(T)> Callback() {
    return [this](const T&) {
      thread_ = std::this_thread::get_id();
      done_.Notify();
    };
  }

  bool OnAnotherThread() {
    done_.WaitForNotification();
    return thread_ != std::this_thread::get_id();
  }

 private:
  std::thread::id thread_;
  absl::Notification done_;
};

class CallbacksTest : public ::testing::Test {
 protected:
  explicit CallbacksTest(std::string address = "") : broker_(std::move(address)) {}

  FakeBroker broker_;
  std::optional<Client> client_{ClientOptions{.address = broker_.address()}};
  Told told_;
};

TEST_F(CallbacksTest, OfAKeyThatCannotBeSent) {
  client_->MakeMutex("\xff").LockAsync(told_.Callback<Result<Guard>>());
  EXPECT_TRUE(told_.OnAnotherThread());
}

TEST_F(CallbacksTest, OfAClosedClient) {
  Mutex mutex = client_->MakeMutex("a");
  client_.reset();
  mutex.LockAsync(told_.Callback<Result<Guard>>());
  EXPECT_TRUE(told_.OnAnotherThread());
}

TEST_F(CallbacksTest, OfAClosedClientThatIsAskedAgainAndAgain) {
  Mutex mutex = client_->MakeMutex("a");
  client_.reset();
  int left = 100;
  absl::Notification done;
  std::function<void(Result<Guard>)> again = [&](Result<Guard> result) {
    EXPECT_EQ(result.refusal().reason, RefusalReason::kClientClosed);
    if (--left > 0) {
      mutex.LockAsync(again);
    } else {
      done.Notify();
    }
  };
  mutex.LockAsync(again);
  done.WaitForNotification();
}

TEST_F(CallbacksTest, OfAnAcquireThatIsCancelled) {
  Client client({.address = kNobody});
  client.MakeMutex("a").LockAsync(told_.Callback<Result<Guard>>()).Cancel();
  EXPECT_TRUE(told_.OnAnotherThread());
}

TEST_F(CallbacksTest, OfALockThatHadEnded) {
  Guard guard = client_->MakeMutex("a").Lock().value();
  ASSERT_EQ(guard.Release(), ReleaseOutcome::kReleased);
  guard.ReleaseAsync(told_.Callback<ReleaseOutcome>());
  EXPECT_TRUE(told_.OnAnotherThread());
  Told downgraded;
  guard.DowngradeAsync(downgraded.Callback<std::optional<Refusal>>());
  EXPECT_TRUE(downgraded.OnAnotherThread());
}

TEST_F(CallbacksTest, OfAnEmptyGuard) {
  Guard guard;
  guard.ReleaseAsync(told_.Callback<ReleaseOutcome>());
  EXPECT_TRUE(told_.OnAnotherThread());
  Told downgraded;
  guard.DowngradeAsync(downgraded.Callback<std::optional<Refusal>>());
  EXPECT_TRUE(downgraded.OnAnotherThread());
}

TEST_F(CallbacksTest, OfSeveralLocksThatCannotBeAskedFor) {
  client_->MakeMultiLock({}).LockAsync(told_.Callback<Result<MultiGuard>>());
  EXPECT_TRUE(told_.OnAnotherThread());
  Told malformed;
  client_->MakeMultiLock(LockSet({"a", "\xff"})).LockAsync(malformed.Callback<Result<MultiGuard>>());
  EXPECT_TRUE(malformed.OnAnotherThread());
  MultiLock both = client_->MakeMultiLock(LockSet({"a", "b"}));
  client_.reset();
  Told closed;
  both.LockAsync(closed.Callback<Result<MultiGuard>>());
  EXPECT_TRUE(closed.OnAnotherThread());
}

TEST_F(CallbacksTest, OfAnElectionOfAClosedClient) {
  Election election = client_->MakeElection("boss");
  client_.reset();
  election.CampaignAsync(told_.Callback<Result<Leadership>>());
  EXPECT_TRUE(told_.OnAnotherThread());
  EXPECT_EQ(election.Look().refusal().reason, RefusalReason::kClientClosed);
}

TEST_F(CallbacksTest, OfAClientsDestructorHaveReturnedWhenItReturns) {
  Guard guard = client_->MakeMutex("a").Lock().value();
  broker_.Hold("b");
  client_->MakeMutex("b").LockAsync(told_.Callback<Result<Guard>>());
  std::thread::id stopped_on;
  const std::stop_callback on_end(guard.stop_token(), [&] { stopped_on = std::this_thread::get_id(); });
  client_.reset();
  EXPECT_TRUE(told_.OnAnotherThread());
  EXPECT_TRUE(stopped_on != std::thread::id() && stopped_on != std::this_thread::get_id());
}

// Clients share the thread that hears from brokers. What the program does in a callback of one delays no other.
TEST_F(CallbacksTest, OfOneClientHoldUpNoOther) {
  Client other({.address = broker_.address()});
  Guard kept = other.MakeMutex("kept").Lock().value();
  absl::Notification leave;
  absl::Notification left;
  client_->MakeMutex("a").LockAsync([&](Result<Guard>) {
    told_.Callback<int>()(0);
    leave.WaitForNotification();
    left.Notify();
  });
  EXPECT_TRUE(told_.OnAnotherThread());
  EXPECT_TRUE(other.MakeMutex("b").Lock().ok());
  EXPECT_EQ(kept.Release(), ReleaseOutcome::kReleased);
  leave.Notify();
  left.WaitForNotification();
}

TEST_F(CallbacksTest, OfClientsThatComeAndGoHaveReturnedWhenTheyAreGone) {
  const auto come_and_go = [&](const std::string& key) {
    for (int i = 0; i < 30; ++i) {
      std::atomic<bool> running = false;
      {
        Client client({.address = broker_.address()});
        absl::Notification granted;
        client.MakeMutex(key).LockAsync([&](const Result<Guard>& guard) {
          running = true;
          EXPECT_TRUE(guard.ok());
          granted.Notify();
          std::this_thread::yield();
          running = false;
        });
        granted.WaitForNotification();
        EXPECT_TRUE(client.MakeMutex(key + "-blocking").Lock().ok());
      }
      EXPECT_FALSE(running);
    }
  };
  std::vector<std::thread> threads;
  for (const char* key : {"a", "b", "c", "d"}) threads.emplace_back(come_and_go, key);
  for (std::thread& thread : threads) thread.join();
}

// A blocking call is answered on its own thread, even while another callback blocks the library's thread.
TEST_F(CallbacksTest, OfOthersDoNotDelayACallThatWaitsForWhatIsKnown) {
  Guard guard = client_->MakeMutex("a").Lock().value();
  ASSERT_EQ(guard.Release(), ReleaseOutcome::kReleased);
  absl::Notification entered;
  absl::Notification leave;
  absl::Notification left;
  client_->MakeMutex("\xff").LockAsync([&](Result<Guard>) {
    entered.Notify();
    leave.WaitForNotification();
    left.Notify();
  });
  entered.WaitForNotification();
  EXPECT_EQ(client_->MakeMutex("\xff").Lock().refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(client_->MakeMultiLock({}).Lock().refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(guard.Downgrade()->reason, RefusalReason::kNotHolder);
  leave.Notify();
  left.WaitForNotification();  // the callback uses this frame
}

// At a port, because a process that dies would leave the folder of a socket behind.
class CallbacksDeathTest : public CallbacksTest {
 protected:
  CallbacksDeathTest() : CallbacksTest("127.0.0.1:0") {}
};

TEST_F(CallbacksDeathTest, ThatThrowEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        client_->MakeMutex("a").LockAsync([](Result<Guard>) { throw std::runtime_error("the program's own"); });
        broker_.WaitFor([](FakeBroker&) { return false; });
      },
      "the program's own");
}

}  // namespace
}  // namespace distlock
