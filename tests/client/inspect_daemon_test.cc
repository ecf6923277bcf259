// SPDX-License-Identifier: Apache-2.0
//
// Looks, detached locks and the calls of operators, against the real daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "daemon_fixture.h"
#include "distlock/admin.h"
#include "distlock/client.h"
#include "distlock/detached.h"
#include "distlock/inspect.h"

namespace distlock {
namespace {

TEST_F(DaemonTest, ALookShowsHoldersAndWaiters) {
  Inspector inspector(two_);
  EXPECT_FALSE(inspector.Look("k").value().held());
  Guard guard = one_.MakeMutex("k", {.owner = "ann", .metadata = {{"job", "7"}}}).Lock().value();
  PendingLock waiting = two_.MakeRwLock("k", {.owner = "bob"}).ReadLockAsync([](const Result<Guard>&) {});
  const LockInfo lock = [&] {
    while (true) {
      LockInfo now = inspector.Look("k").value();
      if (now.queue_length == 1) return now;
    }
  }();
  ASSERT_EQ(lock.holders.size(), 1u);
  EXPECT_EQ(lock.holders[0].owner, "ann");
  EXPECT_EQ(lock.holders[0].holder_id, guard.holder_id());
  EXPECT_EQ(lock.holders[0].metadata.at("job"), "7");
  EXPECT_EQ(lock.fencing_token, guard.token());
  ASSERT_EQ(lock.waiters.size(), 1u);
  EXPECT_EQ(lock.waiters[0].owner, "bob");
  EXPECT_EQ(lock.waiters[0].mode, LockMode::kShared);
  EXPECT_TRUE(inspector.CheckToken("k", guard.token()).value().newest);
  EXPECT_FALSE(inspector.CheckToken("k", guard.token() - 1).value().newest);
  EXPECT_EQ(inspector.Look("").refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_FALSE(inspector.Look("").refusal().field_problems.empty());
}

TEST_F(DaemonTest, AListNamesTheLocksOfAPrefix) {
  MultiGuard held = one_.MakeMultiLock(LockSet({"list/a", "list/b", "other"})).Lock().value();
  Inspector inspector(two_);
  std::set<std::string> keys;
  std::string page_token;
  do {
    const LockPage page = inspector.List("list/", "", page_token).value();
    for (const LockInfo& lock : page.locks) keys.insert(lock.key);
    page_token = page.next_page_token;
  } while (!page_token.empty());
  EXPECT_THAT(keys, ::testing::ElementsAre("list/a", "list/b"));
}

// Runs `watch` on a thread until `enough` has seen it.
template <class Watch>
Refusal WatchUntil(Client& client, const Watch& watch, const std::function<void(std::atomic<int>&)>& meanwhile) {
  std::stop_source stop;
  std::atomic<int> told = 0;
  auto ended = std::async(std::launch::async, [&] {
    Inspector inspector(client);
    return watch(inspector, [&](const LockInfo&) { ++told; }, stop.get_token());
  });
  meanwhile(told);
  stop.request_stop();
  return ended.get();
}

TEST_F(DaemonTest, AWatchTellsOfEachChange) {
  const Refusal ended = WatchUntil(
      two_,
      [](Inspector& inspector, auto tell, const std::stop_token& stop) { return inspector.Watch("w", tell, stop); },
      [&](std::atomic<int>& told) {
        while (told < 1) std::this_thread::yield();
        Guard guard = one_.MakeMutex("w").Lock().value();
        while (told < 2) std::this_thread::yield();
      });
  EXPECT_EQ(ended.reason, RefusalReason::kCancelled);
}

TEST_F(DaemonTest, AWatchOfAPrefixTellsOfItsLocks) {
  Guard guard = one_.MakeMutex("many/a").Lock().value();
  const Refusal ended = WatchUntil(
      two_,
      [](Inspector& inspector, auto tell, const std::stop_token& stop) {
        return inspector.WatchAll("many/", tell, stop);
      },
      [&](std::atomic<int>& told) {
        while (told < 1) std::this_thread::yield();
        guard.Release();
        while (told < 2) std::this_thread::yield();
      });
  EXPECT_EQ(ended.reason, RefusalReason::kCancelled);
}

TEST_F(DaemonTest, ADetachedLockIsTakenHereAndGivenBackThere) {
  DetachedLocks here(one_);
  DetachedLocks there(two_);
  const std::string request = "0123456789abcdef-again";
  const DetachedLease lease = here.Acquire("d", {.ttl = std::chrono::seconds(20)}, {}, request).value();
  EXPECT_GT(lease.time_left(), std::chrono::seconds(1));
  EXPECT_LE(lease.time_left(), std::chrono::seconds(20));
  EXPECT_EQ(there.Acquire("d", {.ttl = std::chrono::seconds(20)}, {}, request).value().token, lease.token)
      << "a repeat gets the same grant";
  EXPECT_EQ(there.Acquire("d", {.max_wait = Duration::zero()}).refusal().reason, RefusalReason::kLockHeld);
  EXPECT_GE(there.Renew(lease.lease_id).value().valid_until, lease.valid_until);
  EXPECT_EQ(there.Downgrade(lease.lease_id), std::nullopt);
  EXPECT_TRUE(one_.MakeRwLock("d").TryReadLock().ok());
  EXPECT_EQ(there.Release(lease.lease_id).value(), ReleaseOutcome::kReleased);
  EXPECT_EQ(here.Release(lease.lease_id).value(), ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(here.Renew(lease.lease_id).refusal().reason, RefusalReason::kNotHolder);
}

TEST_F(DaemonTest, AWaitForADetachedLockIsCancelled) {
  Guard guard = one_.MakeMutex("d").Lock().value();
  std::stop_source stop;
  auto waiting =
      std::async(std::launch::async, [&] { return DetachedLocks(two_).Acquire("d", {}, {}, "", stop.get_token()); });
  while (Inspector(one_).Look("d").value().queue_length == 0) std::this_thread::yield();
  stop.request_stop();
  EXPECT_EQ(waiting.get().refusal().reason, RefusalReason::kCancelled);
}

TEST_F(DaemonTest, AnOperatorTakesALock) {
  Guard guard = one_.MakeMutex("f").Lock().value();
  Admin admin(two_);
  EXPECT_EQ(admin.ForceRelease("nobody's").value(), 0);
  EXPECT_EQ(admin.ForceRelease("f", "", "", "a test").value(), 1);
  while (guard.state() != LockState::kLost) std::this_thread::yield();
  EXPECT_EQ(guard.end_cause(), EndCause::kForced);
}

TEST_F(DaemonTest, AnOperatorSeesTheBroker) {
  Guard guard = one_.MakeMutex("s").Lock().value();
  Admin admin(two_);
  const BrokerStatus status = admin.Status().value();
  EXPECT_TRUE(status.store_up);
  EXPECT_FALSE(status.version.empty() || status.listen_addresses.empty());
  EXPECT_GE(status.leases, 1);
  const StreamPage page = admin.Streams().value();
  EXPECT_THAT(page.streams, ::testing::Contains(::testing::Field(&StreamInfo::kind, StreamKind::kSession)));
}

TEST_F(DaemonTest, AnOperatorSeesTheStoreOfTheBroker) {
  const BrokerStatus status = Admin(two_).Status().value();
  EXPECT_GE(status.shards, 1);
  EXPECT_EQ(status.validity, std::chrono::seconds(20));
  ASSERT_EQ(status.store_nodes.size(), 1u);
  EXPECT_EQ(status.store_nodes[0].state, StoreNodeState::kUp);
  EXPECT_FALSE(status.store_nodes[0].address.empty() || status.store_nodes[0].version.empty());
  EXPECT_FALSE(status.store_nodes[0].independent);
}

TEST_F(DaemonTest, WithoutAPolicyEverythingIsAllowed) {
  Admin admin(two_);
  const AccessAnswer answer = admin.CheckAccess({.verb = "exclusive", .key = "k"}).value();
  EXPECT_TRUE(answer.allowed);
  EXPECT_EQ(answer.identity, "") << "nobody is asked for one";
  EXPECT_EQ(admin.CheckAccess({.verb = "nonsense"}).refusal().reason, RefusalReason::kInvalidArgument);
  EXPECT_TRUE(admin.Reload().value().empty()) << "it was given no file";
}

TEST_F(DaemonTest, TheEndOfADrainIsWaitedFor) {
  std::optional<Daemon> daemon(std::in_place);
  Client client({.address = daemon->address(), .connect_at_once = false});
  Admin admin(client);
  const std::string broker_id = admin.Status().value().broker_id;
  EXPECT_EQ(admin.WaitUntilGone("another"), std::nullopt) << "another broker answers already";
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] { return admin.WaitUntilGone(broker_id, stop.get_token()); });
  stop.request_stop();
  const std::optional<Refusal> stopped = waiting.get();
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->reason, RefusalReason::kCancelled);
  EXPECT_EQ(admin.Drain(Duration::zero()).value().leases, 0);
  EXPECT_EQ(admin.WaitUntilGone(broker_id), std::nullopt);
  daemon->WaitForItsEnd();
}

TEST_F(DaemonTest, CallsOfAClosedClientAreRefused) {
  std::optional<Client> client(std::in_place, Options("closed"));
  Inspector inspector(*client);
  DetachedLocks detached(*client);
  Admin admin(*client);
  client.reset();
  EXPECT_EQ(inspector.Look("a").refusal().reason, RefusalReason::kClientClosed);
  EXPECT_EQ(detached.Acquire("a").refusal().reason, RefusalReason::kClientClosed);
  EXPECT_EQ(admin.Status().refusal().reason, RefusalReason::kClientClosed);
  EXPECT_EQ(admin.WaitUntilGone("b")->reason, RefusalReason::kClientClosed);
  EXPECT_EQ(inspector.WatchAll("", [](const LockInfo&) {}, {}).reason, RefusalReason::kClientClosed);
}

TEST_F(DaemonTest, CallsInACallbackAreRefused) {
  std::promise<RefusalReason> why;
  one_.MakeMutex("c").LockAsync(
      [&](const Result<Guard>&) { why.set_value(Inspector(one_).Look("c").refusal().reason); });
  EXPECT_EQ(why.get_future().get(), RefusalReason::kWouldDeadlock);
}

}  // namespace
}  // namespace distlock
