// SPDX-License-Identifier: Apache-2.0
//
// A real server's answers when it cannot, or must not, do what is asked.
#include <sys/socket.h>

#include "proxy.h"
#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

using std::chrono::seconds;

TEST_F(StoreTest, EvictionIsRefusedUntilItIsTurnedOff) {
  admin_.Do({"CONFIG", "SET", "maxmemory", "100mb"});
  admin_.Do({"CONFIG", "SET", "maxmemory-policy", "volatile-lru"});
  Start(OptionsFor(server_->Url()));
  ASSERT_TRUE(AwaitProblem(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(seen_.Up());
  EXPECT_GE(seen_.Count<core::StoreDown>(), 1u);
  EXPECT_TRUE(Contains(View(problems_.back().message()), "volatile-lru")) << problems_.back();
  admin_.Do({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
}

TEST_F(StoreTest, AReplicaIsLeftUntilItIsAPrimaryAgain) {
  StartAndAwaitUp();
  admin_.Do({"REPLICAOF", "127.0.0.1", "1"});
  const auto failed = AskFor<core::StoreFailed>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_EQ(failed.kind, core::FailureKind::kUnavailable);
  EXPECT_TRUE(failed.cause.starts_with("READONLY")) << failed.cause;
  EXPECT_TRUE(loop_.RunUntil([&] { return !seen_.Up(); }));
  EXPECT_TRUE(loop_.RunUntil([&] { return !problems_.empty() && Contains(View(problems_.back().message()), "role"); }));
  admin_.Do({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  AskFor<core::AcquireGranted>(2, MakeAcquire(2, Lock("k"), Owner(1)));
}

// It may be behind: what it has is no answer, though it would give it.
TEST_F(StoreTest, AReplicaShowsNoLocks) {
  StartAndAwaitUp();
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  for (const bool list : {false, true}) {
    admin_.Do({"REPLICAOF", "127.0.0.1", "1"});
    std::optional<absl::Status> status;
    if (list) {
      store_->List("default", "", 10, "", seconds(10), [&](const auto& page) { status = page.status(); });
    } else {
      store_->Inspect(Lock("k"), 1, seconds(10), [&](const auto& view) { status = view.status(); });
    }
    ASSERT_TRUE(loop_.RunUntil([&] { return status.has_value(); }));
    EXPECT_EQ(status->code(), absl::StatusCode::kUnavailable) << *status;
    EXPECT_TRUE(Contains(View(status->message()), "READONLY")) << *status;
    EXPECT_TRUE(loop_.RunUntil([&] { return !seen_.Up(); })) << "another server may be the primary now";
    admin_.Do({"REPLICAOF", "NO", "ONE"});
    EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  }
}

TEST_F(StoreTest, AFullServerRefusesNewLocksAndKeepsOldOnes) {
  StartAndAwaitUp();
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("old"), Owner(1)));
  admin_.Do({"CONFIG", "SET", "maxmemory", "1"});
  const auto failed = AskFor<core::StoreFailed>(2, MakeAcquire(2, Lock("new"), Owner(1)));
  EXPECT_EQ(failed.kind, core::FailureKind::kFull);
  EXPECT_EQ(AskFor<core::StoreFailed>(3, MakeAcquire(3, Lock("old"), Owner(2), true)).kind, core::FailureKind::kFull);
  const auto renewed = AskFor<core::RenewDoneBatch>(4, core::StoreRenew{4, {{Lock("old"), Owner(1), 0, seconds(9)}}});
  EXPECT_EQ(renewed.results.at(0), core::RenewResult::kRenewed);
  EXPECT_TRUE(AskFor<core::GiveBackDone>(5, core::StoreRelease{5, Lock("old"), Owner(1), {}}).was_holder);
  EXPECT_TRUE(seen_.Up());
}

TEST_F(StoreTest, ForeignKeysAreNamedAndLeftAlone) {
  StartAndAwaitUp();
  const Keys keys("dl");
  admin_.Do({"RPUSH", keys.Holder(Lock("list")), "x"});
  admin_.Do({"SET", keys.Holder(Lock("shape")), "not ours"});
  admin_.Do({"SET", keys.Queue(Lock("queue")), "x"});
  core::OpId op = 0;
  for (const char* key : {"list", "shape", "queue"}) {
    ++op;
    const auto failed = AskFor<core::StoreFailed>(op, MakeAcquire(op, Lock(key), Owner(1)));
    EXPECT_EQ(failed.kind, core::FailureKind::kForeignKey);
    EXPECT_TRUE(Contains(failed.cause, Lock(key).escaped())) << failed.cause;
  }
  std::optional<absl::StatusOr<LockView>> view;
  store_->Inspect(Lock("list"), 1, seconds(10), [&](absl::StatusOr<LockView> got) { view = std::move(got); });
  ASSERT_TRUE(loop_.RunUntil([&] { return view.has_value(); }));
  EXPECT_EQ(view->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(admin_.Str({"LLEN", keys.Holder(Lock("list"))}), "1");
}

TEST_F(StoreTest, AUserWithTheListedRightsCanDoEverything) {
  StartAndAwaitUp(OptionsFor(LimitedUser(admin_, server_->Url())));
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::AcquireQueued>(2, MakeAcquire(2, Lock("k"), Owner(2), true));
  AskFor<core::TendDone>(3, core::StoreTend{3, Lock("k"), {Owner(2)}});
  AskFor<core::RenewDoneBatch>(4, core::StoreRenew{4, {{Lock("k"), Owner(1), 0, seconds(9)}}});
  AskFor<core::GiveBackDone>(5, core::StoreRelease{5, Lock("k"), Owner(1), {}});
  std::optional<absl::StatusOr<LockPage>> page;
  store_->List("default", "", 10, "", seconds(10), [&](absl::StatusOr<LockPage> got) { page = std::move(got); });
  ASSERT_TRUE(loop_.RunUntil([&] { return page.has_value(); }));
  ASSERT_TRUE(page->ok()) << page->status();
  EXPECT_EQ((*page)->locks.size(), 1u);
  EXPECT_TRUE(problems_.empty()) << problems_.back();
}

TEST_F(StoreTest, ARightMissingInsideAScriptLeavesTheOutcomeUnknown) {
  StartAndAwaitUp(OptionsFor(LimitedUser(admin_, server_->Url(), "+zadd")));
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  AskFor<core::StoreUnknown>(2, MakeAcquire(2, Lock("k"), Owner(2), true));
}

TEST_F(StoreTest, AChannelThatMayNotBeSubscribedIsReported) {
  Start(OptionsFor(LimitedUser(admin_, server_->Url(), "&dl:*")));
  ASSERT_TRUE(AwaitProblem(absl::StatusCode::kPermissionDenied));
  EXPECT_FALSE(seen_.Up());
}

TEST_F(StoreTest, AWrongPasswordIsReportedAndTheRightOneTakenUp) {
  admin_.Do({"CONFIG", "SET", "requirepass", "right"});
  std::string password = "wrong";
  auto options = OptionsFor(server_->Url());
  options.credentials = [&password] { return Credentials{"", password}; };
  Start(std::move(options));
  ASSERT_TRUE(AwaitProblem(absl::StatusCode::kUnauthenticated));
  EXPECT_FALSE(Contains(View(problems_.back().message()), "wrong ")) << problems_.back();
  password = "";
  ASSERT_TRUE(loop_.RunUntil([&] { return Contains(View(problems_.back().message()), "NOAUTH"); }));
  password = "right";
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
}

TEST_F(StoreTest, NoRoomForAnotherClientPasses) {
  admin_.Do({"CONFIG", "SET", "maxclients", "1"});
  Start(OptionsFor(server_->Url()));
  ASSERT_TRUE(loop_.RunUntil(
      [&] { return !problems_.empty() && Contains(View(problems_.back().message()), "max number of clients"); }));
  EXPECT_EQ(problems_.back().code(), absl::StatusCode::kUnavailable);
  admin_.Do({"CONFIG", "SET", "maxclients", "100"});
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
}

TEST_F(StoreTest, AServerThatRefusesEverythingIsReportedOnce) {
  StartAndAwaitUp();
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  admin_.Do({"CONFIG", "SET", "min-replicas-to-write", "1"});
  const auto acquire = AskFor<core::StoreFailed>(2, MakeAcquire(2, Lock("m"), Owner(2)));
  const auto renew = AskFor<core::StoreFailed>(3, core::StoreRenew{3, {{Lock("k"), Owner(1), 0, seconds(9)}}});
  EXPECT_NE(acquire.cause, renew.cause) << "or this shows nothing";
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_TRUE(Contains(View(problems_[0].message()), "refuses: NOREPLICAS")) << problems_[0];
}

TEST_F(StoreTest, WhatEachConnectionSuffersIsSaidOnce) {
  auto options = OptionsFor(server_->Url());
  std::string password;
  options.credentials = [&password] { return Credentials{"", password}; };
  StartAndAwaitUp(std::move(options));
  password = "wrong";
  admin_.Do({"CONFIG", "SET", "requirepass", "right"});
  admin_.Do({"CLIENT", "KILL", "TYPE", "normal"});
  admin_.Do({"CLIENT", "KILL", "TYPE", "pubsub"});
  const auto said = [this](const char* what) {
    return std::count_if(problems_.begin(), problems_.end(),
                         [&](const absl::Status& problem) { return Contains(View(problem.message()), what); });
  };
  // Both try again and again, in turn.
  const auto tries = [this] {
    constexpr std::string_view kName = "total_connections_received:";
    const std::string stats = admin_.Str({"INFO", "stats"});
    return std::stoi(stats.substr(stats.find(kName) + kName.size()));
  };
  const int before = tries();
  ASSERT_TRUE(loop_.RunUntil([&] { return tries() >= before + 6; }));
  EXPECT_LE(said("WRONGPASS"), 2);
}

TEST_F(StoreTest, ABusyServerHasNotRunTheCommand) {
  StartAndAwaitUp();
  admin_.Do({"CONFIG", "SET", "busy-reply-threshold", "20"});
  // A client that does not wait for its answer.
  redisContext* busy = redisConnectUnix(server_->Url().address.path.c_str());
  ASSERT_EQ(busy->err, 0);
  const std::string endless = MakeCommand({"EVAL", "while true do end", "0"});
  ASSERT_EQ(send(busy->fd, endless.data(), endless.size(), 0), static_cast<ssize_t>(endless.size()));
  core::OpId op = 0;
  core::StoreReply reply;
  // Before the threshold the command waits with the script; after it, it is refused.
  do {
    ++op;
    reply = Ask(op, MakeAcquire(op, Lock("k"), Owner(1)));
  } while (!std::holds_alternative<core::StoreFailed>(reply.outcome) && op < 1000);
  ASSERT_TRUE(std::holds_alternative<core::StoreFailed>(reply.outcome));
  EXPECT_EQ(std::get<core::StoreFailed>(reply.outcome).kind, core::FailureKind::kUnavailable);
  EXPECT_TRUE(seen_.Up());
  EXPECT_EQ(admin_.Str({"SCRIPT", "KILL"}), "OK");
  redisFree(busy);
  // The script ends a moment after it was told to.
  do {
    ++op;
    reply = Ask(op, MakeAcquire(op, Lock("k"), Owner(1)));
  } while (!std::holds_alternative<core::AcquireGranted>(reply.outcome) && op < 10'000);
  EXPECT_TRUE(std::holds_alternative<core::AcquireGranted>(reply.outcome));
}

TEST_F(StoreTest, WarnsOnceOfAServerThatForgets) {
  StartAndAwaitUp();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(Contains(warnings_[0], "appendonly")) << warnings_[0];
}

TEST_F(StoreTest, UsesTheDatabaseOfItsUrl) {
  auto url = server_->Url();
  url.db = 1;  // the private server has only database 0
  Start(OptionsFor(url));
  EXPECT_TRUE(AwaitProblem(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace distlock::store
