// SPDX-License-Identifier: Apache-2.0
//
// Leases that move between two real brokers of one Redis, and over the restart of a broker.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using std::chrono::seconds;

constexpr int kLeases = 1000;
constexpr int64_t kValidity = 9'000'000'000;  // so that nothing is lost while no process is run for some seconds

int64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

class Process {
 public:
  explicit Process(std::vector<std::string> command) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ~Process() { End(SIGKILL); }

  void Send(int signal) const { ::kill(pid_, signal); }
  // Its status as waitpid tells it.
  int Wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }
  void End(int signal) {
    if (pid_ == 0) return;
    Send(signal);
    Wait();
  }

 private:
  pid_t pid_ = 0;
};

class MovesDaemonTest : public ::testing::Test {
 protected:
  MovesDaemonTest() { StartFirst(); }

  std::string Socket(const std::string& name) const { return "unix://" + folder_.path() + "/" + name; }
  void StartFirst(const std::string& drain_timeout = "30s") { first_.emplace(Command("first", drain_timeout)); }
  void StartSecond() { second_.emplace(Command("second", "30s")); }
  std::vector<std::string> Command(const std::string& name, const std::string& drain_timeout) const {
    return {DISTLOCKD,       "--listen", Socket(name),      "--redis",     Socket("redis"),    "--validity", "9s",
            "--default-ttl", "30s",      "--drain-timeout", drain_timeout, "--wait-for-store", "--http",     "",
            "--log-level",   "error"};
  }

  // Waits until this broker serves, by taking a lock.
  void AwaitServing(const std::string& name) const {
    Client client({.address = Socket(name), .unreachable_timeout = seconds(60)});
    while (!client.MakeMutex("ready").TryLock().ok()) std::this_thread::yield();
  }

  void TakeAll(Client& client, const LockOptions& options = {}) {
    for (int i = 0; i < kLeases; ++i) {
      Result<Guard> guard = client.MakeMutex("key " + std::to_string(i), options).Lock();
      ASSERT_TRUE(guard.ok()) << guard.refusal().message;
      tokens_.push_back(guard->token());
      guards_.push_back(std::move(guard).value());
    }
  }

  // Waits until each lease has a promise that no broker can have given before `since_ns`.
  void ExpectAllGoOn(int64_t since_ns) {
    for (int i = 0; i < kLeases; ++i) {
      Guard& guard = guards_[static_cast<size_t>(i)];
      while (guard.valid_until() <= since_ns + kValidity && guard.state() != LockState::kLost) {
        std::this_thread::yield();
      }
      ASSERT_EQ(guard.end_cause(), EndCause::kNotEnded) << i << ": " << guard.end_message();
      EXPECT_EQ(guard.token(), tokens_[static_cast<size_t>(i)]);
    }
  }

  // Another client sees this through this broker.
  void ExpectAllHeld(const std::string& name) {
    Client other({.address = Socket(name), .unreachable_timeout = seconds(60)});
    for (int i = 0; i < kLeases; ++i) {
      const Result<Guard> refused = other.MakeMutex("key " + std::to_string(i)).TryLock();
      ASSERT_FALSE(refused.ok());
      ASSERT_EQ(refused.refusal().reason, RefusalReason::kLockHeld) << refused.refusal().message;
      ASSERT_EQ(refused.refusal().holders.at(0).fencing_token, tokens_[static_cast<size_t>(i)]);
    }
  }

  const testing::Folder folder_;
  Process redis_{{"redis-server", "--port", "0", "--unixsocket", folder_.path() + "/redis", "--save", "", "--dir",
                  folder_.path(), "--logfile", folder_.path() + "/redis.log"}};
  std::optional<Process> first_;
  std::optional<Process> second_;
  std::vector<Guard> guards_;
  std::vector<int64_t> tokens_;
};

TEST_F(MovesDaemonTest, NoLeaseIsLostWhenBrokersDrainAndDieInTurn) {
  AwaitServing("first");
  Client client({.address = Socket("first") + "," + Socket("second"), .unreachable_timeout = seconds(60)});
  TakeAll(client, {.resume = true});
  StartSecond();
  AwaitServing("second");

  first_->Send(SIGTERM);
  const int status = first_->Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ExpectAllGoOn(NowNs());
  ExpectAllHeld("second");
  EXPECT_FALSE(client.draining());

  StartFirst();
  AwaitServing("first");
  second_->End(SIGKILL);
  ExpectAllGoOn(NowNs());
  ExpectAllHeld("first");
  for (Guard& guard : guards_) EXPECT_EQ(guard.Release(), ReleaseOutcome::kReleased);
}

// 200 waiters of one client, and one of another behind them: 201 grants in the order of arrival, although both brokers
// have drained in between.
TEST_F(MovesDaemonTest, NoPlaceIsLostWhenBrokersDrainInTurn) {
  AwaitServing("first");
  const ClientOptions both{.address = Socket("first") + "," + Socket("second"), .unreachable_timeout = seconds(60)};
  Client holder(both);
  Client waiters(both);
  Client other(both);
  Guard gate = holder.MakeMutex("gate").Lock().value();
  TakeAll(waiters);
  std::atomic<int> queued = 0;
  std::mutex mutex;
  std::vector<int> order;
  const LockOptions counted{.on_queued = [&](const QueuedInfo&) { ++queued; }};
  const auto wait_as = [&](Client& client, int number) {
    client.MakeMutex("gate", counted).LockAsync([&, number](Result<Guard> guard) {
      const std::lock_guard lock(mutex);
      order.push_back(guard.ok() ? number : -1);
      if (guard.ok()) guard->ReleaseAsync(nullptr);
    });
  };
  const auto await_queued = [&](int count) {
    while (queued < count) std::this_thread::yield();
  };
  std::vector<int> expected;
  for (int i = 0; i <= kLeases; ++i) {
    wait_as(i < kLeases ? waiters : other, i);
    if (i == kLeases - 1) await_queued(kLeases);
    expected.push_back(i);
  }
  await_queued(kLeases + 1);

  const auto drain = [&](std::optional<Process>& broker, int round) {
    broker->Send(SIGTERM);
    await_queued((round + 1) * (kLeases + 1));
    EXPECT_EQ(broker->Wait(), 0);
  };
  StartSecond();
  AwaitServing("second");
  drain(first_, 1);
  StartFirst();
  AwaitServing("first");
  drain(second_, 2);

  ExpectAllGoOn(NowNs());
  EXPECT_EQ(gate.Release(), ReleaseOutcome::kReleased);
  const auto granted = [&] {
    const std::lock_guard lock(mutex);
    return order.size();
  };
  while (granted() < expected.size()) std::this_thread::yield();
  EXPECT_EQ(order, expected);
}

TEST_F(MovesDaemonTest, ABrokerThatIsReplacedInPlaceLosesNothingThatResumes) {
  AwaitServing("first");
  Client client({.address = Socket("first"), .unreachable_timeout = seconds(60)});
  TakeAll(client, {.resume = true});
  Guard at_once = client.MakeMutex("not resumed").Lock().value();
  first_->End(SIGKILL);
  StartFirst();
  ExpectAllGoOn(NowNs());
  ExpectAllHeld("first");
  EXPECT_EQ(at_once.state(), LockState::kLost);
  EXPECT_EQ(at_once.end_cause(), EndCause::kDisconnected);
}

TEST_F(MovesDaemonTest, ABrokerThatIsRestartedInPlaceLosesNothingThatResumes) {
  StartFirst("100ms");
  AwaitServing("first");
  Client client({.address = Socket("first"), .unreachable_timeout = seconds(60)});
  TakeAll(client, {.resume = true});
  Guard at_once = client.MakeMutex("not resumed").Lock().value();
  first_->Send(SIGTERM);
  first_->Wait();
  while (at_once.state() != LockState::kLost) std::this_thread::yield();
  EXPECT_EQ(at_once.end_cause(), EndCause::kDrained);
  StartFirst();
  ExpectAllGoOn(NowNs());
  ExpectAllHeld("first");
}

TEST_F(MovesDaemonTest, WithoutABrokerWhatResumesEndsWithItsLastPromise) {
  AwaitServing("first");
  Client client({.address = Socket("first")});
  Guard guard = client.MakeMutex("a", {.resume = true}).Lock().value();
  first_->End(SIGKILL);
  bool at_risk = false;
  while (guard.state() != LockState::kLost) at_risk = at_risk || guard.state() == LockState::kAtRisk;
  EXPECT_TRUE(at_risk);
  EXPECT_GE(NowNs(), guard.valid_until());
  EXPECT_EQ(guard.end_cause(), EndCause::kLapsed);
}

}  // namespace
}  // namespace distlock
