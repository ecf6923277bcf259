// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "daemon_fixture.h"
#include "distlock/client.h"

namespace distlock {
namespace {

// What a program may do that forks and goes on, in the order of these lines; the number of the first that is wrong.
int FirstWrongInAChild(std::unique_ptr<Client>& client, std::optional<Guard>& guard, std::optional<MultiGuard>& both) {
  if (guard->state() != LockState::kLost || both->state() != LockState::kLost) return 1;
  if (guard->end_cause() != EndCause::kClientClosed || guard->end_message().empty()) return 2;
  if (guard->stop_token().stop_requested() || both->stop_token().stop_requested()) return 3;
  if (guard->Release() != ReleaseOutcome::kAlreadyGone || both->Release() != ReleaseOutcome::kAlreadyGone) return 4;
  if (guard->Downgrade()->reason != RefusalReason::kClientClosed) return 5;
  if (client->connected() || client->draining()) return 6;
  const auto other = client->MakeMutex("other").Lock();
  if (other.ok() || other.refusal().reason != RefusalReason::kClientClosed) return 7;
  if (client->MakeMultiLock(LockSet({"x", "y"})).Lock().ok()) return 8;
  guard.reset();
  both.reset();
  client.reset();
  return 0;
}

TEST_F(DaemonTest, AChildOfForkLeavesTheLocksToItsParent) {
  auto client = std::make_unique<Client>(Options("forks"));
  std::optional<Guard> guard = client->MakeMutex("k").Lock().value();
  std::optional<MultiGuard> both = client->MakeMultiLock(LockSet({"a", "b"})).Lock().value();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(FirstWrongInAChild(client, guard, both));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  for (const char* key : {"k", "a", "b"}) EXPECT_FALSE(two_.MakeMutex(key).TryLock().ok()) << key;
  EXPECT_EQ(guard->state(), LockState::kHeld);
  EXPECT_EQ(guard->Release(), ReleaseOutcome::kReleased);
  EXPECT_EQ(both->Release(), ReleaseOutcome::kReleased);
}

}  // namespace
}  // namespace distlock
