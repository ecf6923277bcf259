// SPDX-License-Identifier: Apache-2.0
//
// Connections that break, hang and lie: every command ends once, and the store comes back.
#include "store/redis/link.h"

#include <signal.h>

#include <algorithm>

#include "proxy.h"
#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LinkTest : public StoreTest {
 protected:
  // Each op from first to last answered exactly once.
  void ExpectOneAnswerEach(core::OpId first, core::OpId last) {
    for (core::OpId op = first; op <= last; ++op) EXPECT_EQ(seen_.Replies(op), 1u) << op;
  }
  bool AwaitReplies(size_t count) {
    return loop_.RunUntil([&] { return seen_.Count<core::StoreReply>() >= count; });
  }
  bool IsUnknown(core::OpId op) { return std::holds_alternative<core::StoreUnknown>(seen_.Reply(op)->outcome); }
  bool IsNotSent(core::OpId op) {
    const auto* failed = std::get_if<core::StoreFailed>(&seen_.Reply(op)->outcome);
    return failed != nullptr && failed->kind == core::FailureKind::kNotSent;
  }
};

TEST_F(LinkTest, BeforeTheFirstConnectionCommandsAreNotSent) {
  store_ = OpenStore(loop_.get(), OptionsFor(server_->Url()));
  store_->Start(&seen_);
  store_->Submit(MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_EQ(seen_.Replies(1), 0u);
  ASSERT_TRUE(AwaitReplies(1));
  EXPECT_TRUE(IsNotSent(1));
}

TEST_F(LinkTest, AServerThatComesLaterIsFound) {
  const TempDir dir;
  StoreUrl url = server_->Url();
  url.address.path = dir / "store.sock";
  Start(OptionsFor(url));
  ASSERT_TRUE(AwaitProblem(absl::StatusCode::kUnavailable));
  EXPECT_GE(seen_.Count<core::StoreDown>(), 1u);
  const auto late = StartServer(dir.path());
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  store_.reset();
}

TEST_F(LinkTest, AKilledServerLeavesUnknownOutcomesAndIsFoundAgain) {
  const TempDir dir;
  auto server = StartServer(dir.path());
  StartAndAwaitUp(OptionsFor(server->Url()));
  kill(server->pid(), SIGSTOP);
  for (core::OpId op = 1; op <= 20; ++op) store_->Submit(MakeAcquire(op, Lock(Cat(op)), Owner(1)));
  store_->Flush();
  kill(server->pid(), SIGKILL);
  ASSERT_TRUE(AwaitReplies(20));
  ExpectOneAnswerEach(1, 20);
  for (core::OpId op = 1; op <= 20; ++op) EXPECT_TRUE(IsUnknown(op)) << op;
  EXPECT_FALSE(seen_.Up());
  // The loss was told before its consequences.
  size_t down = 0;
  size_t answer = 0;
  for (size_t i = 0; i < seen_.inputs.size(); ++i) {
    if (std::holds_alternative<core::StoreDown>(seen_.inputs[i]) && down == 0) down = i;
    if (std::holds_alternative<core::StoreReply>(seen_.inputs[i]) && answer == 0) answer = i;
  }
  EXPECT_LT(down, answer);
  server.reset();
  server = StartServer(dir.path());
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Up() && seen_.Count<core::ChannelUp>() >= 2; }));
  AskFor<core::AcquireGranted>(30, MakeAcquire(30, Lock("k"), Owner(1)));
  store_.reset();
}

TEST_F(LinkTest, AResetInTheMiddleOfAReplyEndsEachCommandOnce) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  // A granted reply is about 60 bytes long: some arrive whole, one in part.
  for (const int64_t bytes : {1, 30, 100, 333}) {
    const core::OpId first = 1000 * static_cast<core::OpId>(bytes);
    const size_t before = seen_.Count<core::StoreReply>();
    ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
    proxy.ResetAfterReplyBytes(bytes);
    // For one lock, so that none goes with another in a call.
    for (core::OpId op = first; op < first + 20; ++op) store_->Submit(MakeAcquire(op, Lock(Cat(first)), Owner(1)));
    store_->Flush();
    ASSERT_TRUE(AwaitReplies(before + 20));
    ExpectOneAnswerEach(first, first + 19);
    EXPECT_TRUE(IsUnknown(first + 19));
    EXPECT_EQ(IsUnknown(first), bytes < 40);
  }
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  store_.reset();
}

TEST_F(LinkTest, WhatNeverLeftIsNotSentAndTheRestUnknown) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  proxy.PauseRequests(true);
  constexpr core::OpId kLast = 1000;
  for (core::OpId op = 1; op <= kLast; ++op) {
    auto acquire = MakeAcquire(op, Lock(Cat(op)), Owner(1));
    acquire.info = std::string(32 << 10, 'x');
    store_->Submit(core::StoreAcquire(acquire));
  }
  store_->Flush();
  ASSERT_TRUE(AwaitReplies(kLast)) << "silence ends the connection";
  ExpectOneAnswerEach(1, kLast);
  EXPECT_TRUE(IsUnknown(1));
  EXPECT_TRUE(IsNotSent(kLast));
  bool not_sent = false;
  for (core::OpId op = 1; op <= kLast; ++op) {
    not_sent = not_sent || IsNotSent(op);
    EXPECT_EQ(IsNotSent(op), not_sent) << op;
  }
  proxy.PauseRequests(false);
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  // Nothing that was called not sent has happened.
  AskFor<core::AcquireGranted>(2000, MakeAcquire(2000, Lock(Cat(kLast)), Owner(2)));
  store_.reset();
}

TEST_F(LinkTest, RepliesThatComeTooLateAreForNobody) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  proxy.PauseReplies(true);
  store_->Submit(MakeAcquire(1, Lock("k"), Owner(1)));
  store_->Flush();
  ASSERT_TRUE(loop_.RunUntil([&] { return admin_.Str({"EXISTS", Keys("dl").Holder(Lock("k"))}) == "1"; }));
  ASSERT_TRUE(AwaitReplies(1)) << "silence ends the connection";
  proxy.PauseReplies(false);
  EXPECT_TRUE(IsUnknown(1));
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  AskFor<core::AcquireGranted>(2, MakeAcquire(2, Lock("k"), Owner(1)));
  ExpectOneAnswerEach(1, 2);
  store_.reset();
}

TEST_F(LinkTest, BytesThatNobodyAskedForEndTheConnection) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  size_t downs = 0;
  const std::string endless = "$99999999999999\r\n" + std::string(17 << 20, 'x');
  for (const std::string& lie :
       {std::string("+surprise\r\n"), std::string("what is this?\r\n"),
        std::string("*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n"), std::string("*99999999\r\n"), endless}) {
    proxy.Inject(lie);
    ++downs;
    ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreDown>() >= downs && seen_.Up(); }))
        << lie.substr(0, 50);
    downs = seen_.Count<core::StoreDown>();
  }
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  store_.reset();
}

TEST_F(LinkTest, AServerThatAcceptsAndSaysNothingIsGivenUp) {
  Proxy proxy(server_->Url().address.path);
  proxy.PauseReplies(true);
  auto options = OptionsFor(proxy.Url());
  options.connect_timeout = milliseconds(50);
  Start(std::move(options));
  ASSERT_TRUE(AwaitProblem(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(Contains(View(problems_.back().message()), "within 50 ms")) << problems_.back();
  ASSERT_TRUE(loop_.RunUntil([&] { return proxy.accepted() >= 3; }));
  proxy.PauseReplies(false);
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Up(); }));
  store_.reset();
}

TEST_F(LinkTest, KilledConnectionsComeBackEachForItself) {
  StartAndAwaitUp();
  admin_.Do({"CLIENT", "KILL", "TYPE", "pubsub"});
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::ChannelUp>() == 2; }));
  EXPECT_EQ(seen_.Count<core::StoreDown>(), 0u);
  admin_.Do({"CLIENT", "KILL", "TYPE", "normal"});
  ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::StoreUp>() == 2; }));
  EXPECT_EQ(seen_.Count<core::StoreDown>(), 1u);
  EXPECT_EQ(seen_.Count<core::ChannelUp>(), 2u);
}

TEST_F(LinkTest, AChannelThatFallsSilentIsMadeAgain) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  proxy.PauseReplies(true);
  ASSERT_TRUE(loop_.RunUntil([&] {
    return std::any_of(problems_.begin(), problems_.end(), [](const absl::Status& problem) {
      return Contains(View(problem.message()), "hand-off channel: the server has not answered");
    });
  })) << "which is asked less often than the commands' connection";
  proxy.PauseReplies(false);
  EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Count<core::ChannelUp>() == 2; }));
  store_.reset();
}

TEST_F(LinkTest, AHostThatDoesNotExistIsAProblemAndStopDoesNotWaitForIt) {
  StoreUrl url;
  url.address.host = "no-such-host.invalid";
  Start(OptionsFor(url));
  ASSERT_TRUE(AwaitProblem(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(Contains(View(problems_.back().message()), "no-such-host.invalid")) << problems_.back();
}

TEST_F(LinkTest, StopWithWorkPendingEverywhereLeavesNothingBehind) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  proxy.PauseReplies(true);
  int cancelled = 0;
  for (core::OpId op = 1; op <= 100; ++op) {
    store_->Submit(MakeAcquire(op, Lock("k"), Owner(1)));
    store_->Inspect(Lock("k"), 1, seconds(5), [&](const absl::StatusOr<LockView>& got) {
      cancelled += got.status().code() == absl::StatusCode::kCancelled;
    });
  }
  store_->List("default", "", 1, "", seconds(5), [&](const absl::StatusOr<LockPage>& got) {
    cancelled += got.status().code() == absl::StatusCode::kCancelled;
  });
  store_->Flush();
  const size_t before = seen_.inputs.size();
  store_->Stop();
  EXPECT_EQ(cancelled, 101);
  EXPECT_EQ(seen_.inputs.size(), before);
  store_.reset();
}

TEST_F(LinkTest, StopFromInsideACallbackIsFinal) {
  StartAndAwaitUp();
  seen_.on_input = [&](const core::Input& input) {
    if (std::holds_alternative<core::StoreReply>(input)) store_->Stop();
  };
  for (core::OpId op = 1; op <= 10; ++op) store_->Submit(MakeAcquire(op, Lock("k"), Owner(1)));
  store_->Flush();
  ASSERT_TRUE(AwaitReplies(1));
  for (int i = 0; i < 5; ++i) loop_.Turn();
  EXPECT_EQ(seen_.Count<core::StoreReply>(), 1u);
}

TEST_F(LinkTest, AQuestionHasItsOwnDeadline) {
  Proxy proxy(server_->Url().address.path);
  StartAndAwaitUp(OptionsFor(proxy.Url()));
  proxy.PauseReplies(true);
  std::optional<absl::StatusOr<LockView>> view;
  store_->Inspect(Lock("k"), 1, milliseconds(30), [&](absl::StatusOr<LockView> got) { view = std::move(got); });
  ASSERT_TRUE(loop_.RunUntil([&] { return view.has_value(); }));
  EXPECT_EQ(view->status().code(), absl::StatusCode::kDeadlineExceeded);
  view.reset();
  proxy.PauseReplies(false);
  AskFor<core::AcquireGranted>(1, MakeAcquire(1, Lock("k"), Owner(1)));
  EXPECT_FALSE(view) << "answered twice";
  store_.reset();
}

}  // namespace
}  // namespace distlock::store
