// SPDX-License-Identifier: Apache-2.0
//
// The use of a parent's clients, and of new ones, in a child of fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "daemon_fixture.h"
#include "distlock/client.h"

namespace distlock {
namespace {

// The exit code of a child that runs `body`; -1 when it did not end by itself within kPatience.
int InAChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(static_cast<unsigned>(kPatience.count()));
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool IsClosed(const Refusal& refusal) {
  return refusal.reason == RefusalReason::kClientClosed && !refusal.message.empty();
}

template <class T>
bool IsClosed(const Result<T>& result) {
  return !result.ok() && IsClosed(result.refusal());
}

// Runs checks in a child. The number of the first one that fails; 0: none.
int FirstWrongInAChild(std::unique_ptr<Client>& client, std::optional<Guard>& guard, std::optional<MultiGuard>& both) {
  if (guard->state() != LockState::kLost || both->state() != LockState::kLost) return 1;
  if (guard->end_cause() != EndCause::kClientClosed || guard->end_message().empty()) return 2;
  if (!guard->stop_token().stop_requested() || !both->stop_token().stop_requested()) return 3;
  if (guard->Release() != ReleaseOutcome::kAlreadyGone || both->Release() != ReleaseOutcome::kAlreadyGone) return 4;
  if (guard->Downgrade()->reason != RefusalReason::kClientClosed) return 5;
  if (client->connected() || client->draining()) return 6;
  if (!IsClosed(client->MakeMutex("other").Lock())) return 7;
  if (!IsClosed(client->MakeMultiLock(LockSet({"x", "y"})).Lock())) return 8;
  guard.reset();
  both.reset();
  client.reset();
  return 0;
}

TEST_F(DaemonTest, AChildOfForkLeavesTheLocksToItsParent) {
  auto client = std::make_unique<Client>(Options("forks"));
  std::optional<Guard> guard = client->MakeMutex("k").Lock().value();
  std::optional<MultiGuard> both = client->MakeMultiLock(LockSet({"a", "b"})).Lock().value();
  EXPECT_FALSE(both->stop_token().stop_requested());
  EXPECT_EQ(InAChild([&] { return FirstWrongInAChild(client, guard, both); }), 0);
  for (const char* key : {"k", "a", "b"}) EXPECT_FALSE(two_.MakeMutex(key).TryLock().ok()) << key;
  EXPECT_EQ(guard->state(), LockState::kHeld);
  EXPECT_FALSE(guard->stop_token().stop_requested() || both->stop_token().stop_requested());
  EXPECT_EQ(guard->Release(), ReleaseOutcome::kReleased);
  EXPECT_EQ(both->Release(), ReleaseOutcome::kReleased);
}

TEST_F(DaemonTest, AnElectionIsRefusedInAChildOfFork) {
  std::optional<Election> election = one_.MakeElection("boss", "here");
  ASSERT_TRUE(election->Look().ok()) << "the connection that the child must not touch";
  EXPECT_EQ(InAChild([&] {
              if (!IsClosed(election->Look())) return 1;
              if (!IsClosed(election->Observe([](const std::optional<Leader>&) {}, {}))) return 2;
              if (!IsClosed(election->Campaign())) return 3;
              election.reset();
              return 0;
            }),
            0);
  EXPECT_TRUE(election->Look().ok());
  EXPECT_TRUE(election->TryCampaign().ok());
}

// A child has no thread of the library, and must not run a callback under a mutex that its own caller holds.
TEST_F(DaemonTest, CallbacksInAChildOfForkRunOnAnotherThread) {
  std::optional<Guard> guard = one_.MakeMutex("k").Lock().value();
  EXPECT_EQ(InAChild([&] {
              std::promise<std::thread::id> refused;
              one_.MakeMutex("other").LockAsync([&](Result<Guard> result) {
                refused.set_value(IsClosed(result) ? std::this_thread::get_id() : std::thread::id());
              });
              const std::thread::id refused_on = refused.get_future().get();
              if (refused_on == std::this_thread::get_id() || refused_on == std::thread::id()) return 1;
              std::promise<std::thread::id> released;
              guard->ReleaseAsync([&](ReleaseOutcome) { released.set_value(std::this_thread::get_id()); });
              return released.get_future().get() == std::this_thread::get_id() ? 2 : 0;
            }),
            0);
}

int LockInAClientOfItsOwn(const ClientOptions& options) {
  Client client(options);
  Mutex mutex = client.MakeMutex("own");
  while (true) {
    Result<Guard> guard = mutex.TryLock();
    if (guard.ok()) return guard->Release() == ReleaseOutcome::kReleased ? 0 : 1;
    if (guard.refusal().reason != RefusalReason::kStoreUnavailable) return static_cast<int>(guard.refusal().reason);
  }
}

// gRPC ends some time after the last Client. A child that is forked before that is refused, so this tries again.
int LockInAChild(const ClientOptions& options) {
  while (true) {
    const int code = InAChild([&] { return LockInAClientOfItsOwn(options); });
    if (code != static_cast<int>(RefusalReason::kClientClosed)) return code;
  }
}

// gRPC's threads are not in the child, and its poller's descriptor is shared with the parent.
TEST_F(DaemonTest, AChildCannotMakeAClientWhileItsParentHasOne) {
  EXPECT_EQ(InAChild([&] {
              Client client(Options("child"));
              if (client.connected()) return 1;
              if (!IsClosed(client.MakeMutex("own").TryLockFor(kPatience))) return 2;
              if (!IsClosed(client.MakeElection("boss").Look())) return 3;
              return 0;
            }),
            0);
  EXPECT_TRUE(one_.MakeMutex("own").TryLock().ok());
}

TEST(Fork, AChildMakesAClientOfItsOwnWhereItsParentHasNone) {
  const Daemon daemon;
  const ClientOptions options{.address = daemon.address(), .unreachable_timeout = kPatience};
  EXPECT_EQ(LockInAChild(options), 0) << "the parent never had one";
  EXPECT_EQ(LockInAClientOfItsOwn(options), 0);
  EXPECT_EQ(LockInAChild(options), 0) << "the parent's is destroyed";
}

}  // namespace
}  // namespace distlock
