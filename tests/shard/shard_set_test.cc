// SPDX-License-Identifier: Apache-2.0
#include "shard/shard_set.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "collector.h"
#include "model_server.h"
#include "model_store.h"
#include "shard/boot_clock.h"

namespace distlock::shard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

class RecordingObserver : public Observer {
 public:
  void OnFact(const core::Fact& fact) override {
    ++facts;
    if (fact.kind == core::FactKind::kGranted && on_granted) on_granted();
  }
  void OnStoreState(int, bool up, const std::string&) override { up ? ++ups : ++downs; }
  void OnLoopLag(core::Duration lag) override {
    EXPECT_GE(lag, core::Duration::zero());
    ++lags;
  }
  void OnStoreReply(core::Verb, core::Duration took, bool ok) override {
    EXPECT_GE(took, core::Duration::zero());
    ok ? ++replies : ++failures;
  }
  void OnStoreFailure(core::Verb, std::optional<core::FailureKind> why) override { unknown += !why.has_value(); }
  std::function<void()> on_granted;  // on the shard's thread; set before the shard starts
  std::atomic<int> facts = 0, ups = 0, downs = 0, lags = 0, replies = 0, failures = 0, unknown = 0;
};

class ShardSetTest : public testing::Test {
 protected:
  void Make(int shards = 1, size_t mailbox = 1024) {
    ShardSetOptions options;
    options.shards = shards;
    options.mailbox_capacity = mailbox;
    options.make_store = stores_.Factory();
    options.broker.store = ModelStores::kTraits;
    options.observer = &observer_;
    options.broker.validity = minutes(5);  // no heartbeats in these tests
    options.broker.store_timeout = minutes(5);
    set_ = std::make_unique<ShardSet>(std::move(options));
  }
  void StartUp(int shards = 1) {
    Make(shards);
    set_->Start();
    ASSERT_TRUE(Eventually([this] {
      for (const auto& status : set_->Status()) {
        if (!status.store_up) return false;
      }
      return true;
    }));
  }
  // For what only a snapshot shows.
  static bool Eventually(const std::function<bool()>& holds) {
    const auto give_up = BootNow() + minutes(1);
    while (!holds()) {
      if (BootNow() > give_up) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  // As the store shows it: of the last grant of the lock.
  uint64_t TokenOf(const std::string& key) {
    std::promise<uint64_t> token;
    set_->Inspect(core::LockName::Encode("test", key), 0, minutes(1),
                  [&](const absl::StatusOr<store::LockView>& view) { token.set_value(view.value().last_token); });
    return token.get_future().get();
  }
  core::SessionId Open(int shard, const std::shared_ptr<Sink>& sink) {
    const auto session = set_->NewSessionId();
    EXPECT_TRUE(set_->TryPost(shard, core::OpenSession{.session = session}, session, sink));
    return session;
  }

  ModelStores stores_;
  RecordingObserver observer_;
  std::unique_ptr<ShardSet> set_;
  std::shared_ptr<Collector> sink_ = std::make_shared<Collector>();
};

TEST_F(ShardSetTest, GrantsAndReleases) {
  StartUp();
  const auto session = Open(0, sink_);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(session, 1, "a")));
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  set_->Post(0, core::Release{.session = session, .request = 2, .acquire = 1, .name = {}});
  ASSERT_TRUE(sink_->AwaitOne<core::Released>());
  EXPECT_EQ(sink_->Get<core::Released>().outcome, core::ReleaseOutcome::kReleased);
  EXPECT_GT(observer_.facts, 0);
  EXPECT_GE(observer_.replies, 2);
  EXPECT_GT(observer_.lags, 0);
}

TEST_F(ShardSetTest, AReleaseGrantsTheNextWaiter) {
  StartUp();
  auto other = std::make_shared<Collector>();
  const auto first = Open(0, sink_), second = Open(0, other);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(first, 1, "a")));
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(second, 1, "a")));
  ASSERT_TRUE(other->AwaitOne<core::Queued>());
  set_->Post(0, core::StreamEnded{first});
  ASSERT_TRUE(other->AwaitOne<core::Granted>());
}

TEST_F(ShardSetTest, OneTurnIsOnePipelineAndOneCallPerListener) {
  StartUp();
  const auto session = Open(0, sink_);
  std::vector<core::Input> batch;
  for (core::RequestId i = 1; i <= 100; ++i) batch.push_back(AcquireOf(session, i, "k" + std::to_string(i)));
  ASSERT_TRUE(set_->TryPost(0, std::move(batch)));
  ASSERT_TRUE(sink_->AwaitAll<core::Granted>(100));
  EXPECT_EQ(stores_.counts().largest_flush, 100u);
  EXPECT_EQ(sink_->calls(), 1);
}

TEST_F(ShardSetTest, ALostReplyIsResolvedToTheSameGrant) {
  StartUp();
  const auto session = Open(0, sink_);
  stores_.LoseReplies(1);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(session, 1, "a")));
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  EXPECT_EQ(sink_->Get<core::Granted>().token, TokenOf("a"));
  EXPECT_EQ(stores_.counts().acquires, 2u);
  EXPECT_EQ(observer_.unknown, 1);
}

TEST_F(ShardSetTest, TheStoresStateIsSeenAndWaitedOut) {
  StartUp();
  const auto session = Open(0, sink_);
  stores_.SetUp(false);
  ASSERT_TRUE(Eventually([this] { return !set_->Status()[0].store_up; }));
  EXPECT_EQ(set_->Status()[0].store_problem, ModelServer::kAway);
  EXPECT_EQ(observer_.downs, 1);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(session, 1, "a")));
  ASSERT_TRUE(Eventually([this] { return set_->Status()[0].stats.waiters == 1; }));
  stores_.SetUp(true);
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  EXPECT_EQ(set_->Status()[0].store_problem, "");
}

TEST_F(ShardSetTest, ATimerFiresWithNothingElseGoingOn) {
  StartUp();
  auto other = std::make_shared<Collector>();
  const auto holder = Open(0, other), session = Open(0, sink_);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(holder, 1, "a")));
  auto acquire = AcquireOf(session, 1, "a");
  acquire.max_wait = milliseconds(30);
  const auto asked = BootNow();
  ASSERT_TRUE(set_->TryPost(0, std::move(acquire)));
  ASSERT_TRUE(sink_->AwaitOne<core::Refused>());
  EXPECT_EQ(sink_->Get<core::Refused>().reason, core::RefusalReason::kWaitTimeout);
  EXPECT_GE(BootNow() - asked, milliseconds(30));
}

TEST_F(ShardSetTest, RefusesWhenFullAndAttachesNothing) {
  Make(1, 4);  // not started: nobody takes the mail
  const auto session = set_->NewSessionId();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, i}));
  EXPECT_FALSE(set_->TryPost(0, core::OpenSession{.session = session}, session, sink_));
  EXPECT_FALSE(set_->TryPost(0, std::vector<core::Input>(1, core::Heartbeat{session, 5})));
  EXPECT_EQ(sink_.use_count(), 1);
  EXPECT_EQ(set_->Status()[0].mailbox_depth, 4u);
  set_->Start();
  ASSERT_TRUE(Eventually([&] { return set_->TryPost(0, core::OpenSession{.session = session}, session, sink_); }));
  ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, 6}));
  ASSERT_TRUE(sink_->AwaitOne<core::HeartbeatAck>());
  EXPECT_EQ(sink_->Get<core::HeartbeatAck>().seq, 6u);
}

TEST_F(ShardSetTest, StreamEndedLetsTheSinkGoAndFreesTheLocks) {
  StartUp();
  const auto session = Open(0, sink_);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(session, 1, "a")));
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  set_->Post(0, core::StreamEnded{session});
  ASSERT_TRUE(Eventually([this] {
    const auto stats = set_->Status()[0].stats;
    return sink_.use_count() == 1 && stats.sessions == 0 && stats.leases == 0 && stats.pending_releases == 0;
  }));
}

TEST_F(ShardSetTest, QuestionsAreAnsweredOnAShard) {
  StartUp(2);
  const auto name = core::LockName::Encode("test", "a");
  const int shard = set_->ShardOf(name);
  const auto session = Open(shard, sink_);
  ASSERT_TRUE(set_->TryPost(shard, AcquireOf(session, 1, "a")));
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  std::promise<std::thread::id> where;
  set_->Inspect(name, 10, minutes(1), [&](absl::StatusOr<store::LockView> view) {
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(view->holders.at(0).token, sink_->Get<core::Granted>().token);
    where.set_value(std::this_thread::get_id());
  });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
  std::promise<absl::Status> listed;
  set_->List("test", "", 10, "", minutes(1),
             [&](const absl::StatusOr<store::LockPage>& page) { listed.set_value(page.status()); });
  EXPECT_TRUE(listed.get_future().get().ok());
}

TEST_F(ShardSetTest, QuestionsEndWhenTheSetStops) {
  StartUp();
  const auto name = core::LockName::Encode("test", "a");
  stores_.HoldReplies(true);
  std::vector<absl::StatusCode> codes;
  const auto note = [&](const absl::StatusOr<store::LockView>& view) { codes.push_back(view.status().code()); };
  set_->Inspect(name, 0, minutes(1), note);
  set_->Stop();
  set_->Inspect(name, 0, minutes(1), note);
  EXPECT_EQ(codes, std::vector(2, absl::StatusCode::kCancelled));
}

TEST_F(ShardSetTest, DrainWaitsForTheLastHolderOfEveryShard) {
  StartUp(3);
  std::map<int, core::SessionId> sessions;
  for (int i = 0; sessions.size() < 3; ++i) {
    const auto key = std::to_string(i);
    const int shard = set_->ShardOf(core::LockName::Encode("test", key));
    if (sessions.contains(shard)) continue;
    sessions[shard] = Open(shard, sink_);
    ASSERT_TRUE(set_->TryPost(shard, AcquireOf(sessions[shard], 1, key)));
  }
  ASSERT_TRUE(sink_->AwaitAll<core::Granted>(3));
  std::atomic<int> done = 0;
  std::promise<void> first, second;
  set_->Drain(hours(1), [&] { ++done, first.set_value(); });
  ASSERT_TRUE(sink_->AwaitAll<core::Draining>(3));
  set_->Post(0, core::StreamEnded{sessions[0]});
  set_->Post(1, core::StreamEnded{sessions[1]});
  ASSERT_TRUE(Eventually([&] { return set_->Status()[0].stats.leases + set_->Status()[1].stats.leases == 0; }));
  EXPECT_EQ(done, 0);
  set_->Post(2, core::StreamEnded{sessions[2]});
  first.get_future().get();
  set_->Drain(hours(1), [&] { ++done, second.set_value(); });
  second.get_future().get();
  set_->Stop();
  EXPECT_EQ(done, 2);
}

TEST_F(ShardSetTest, WhoIsToldOfADrainIsLetGo) {
  StartUp();
  std::promise<void> first;
  set_->Drain(minutes(1), [&] { first.set_value(); });
  first.get_future().get();
  auto caller = std::make_shared<std::promise<void>>();
  auto told = caller->get_future();
  const std::weak_ptr<std::promise<void>> there = caller;
  set_->Drain(minutes(1), [caller = std::move(caller)] { caller->set_value(); });
  told.get();
  EXPECT_TRUE(Eventually([&] { return there.expired(); })) << "although no other mail comes";
}

TEST_F(ShardSetTest, AGrantThatCrossesTheEndOfItsCallIsHeard) {
  Make();
  core::SessionId session = 0;
  observer_.on_granted = [&] { set_->Post(0, core::StreamEnded{session}); };
  set_->Start();
  session = set_->NewSessionId();
  auto acquire = AcquireOf(session, 1, "a");
  acquire.detached = true;
  ASSERT_TRUE(set_->TryPost(0, std::move(acquire), session, sink_));
  EXPECT_TRUE(sink_->AwaitOne<core::Granted>()) << "only who asked can give it back";
}

TEST_F(ShardSetTest, ASecondDrainShortensTheFirst) {
  StartUp();
  const auto session = Open(0, sink_);
  ASSERT_TRUE(set_->TryPost(0, AcquireOf(session, 1, "a")));
  ASSERT_TRUE(sink_->AwaitOne<core::Granted>());
  set_->Drain(hours(1), [] {});
  set_->Drain(milliseconds(1), [] {});
  // The drain itself lasts until the client's belief has ended, which is long in these tests.
  ASSERT_TRUE(sink_->AwaitOne<core::Lost>());
  EXPECT_EQ(sink_->Get<core::Lost>().reason, core::LostReason::kDrained);
}

TEST_F(ShardSetTest, StopsInEveryState) {
  Make();
  set_.reset();  // never started
  Make();
  set_->Start();
  set_->Stop();
  set_->Stop();
  EXPECT_FALSE(set_->TryPost(0, core::Heartbeat{1, 1}));
  set_->Post(0, core::StreamEnded{1});
  for (int i = 0; i < 50; ++i) {
    Make(3);
    set_->Start();
    set_.reset();
  }
  EXPECT_EQ(stores_.counts().stopped, 1u + 3 * 50);
}

TEST_F(ShardSetTest, NamesSpreadAndStay) {
  Make(4);
  std::map<int, int> load;
  for (int i = 0; i < 4000; ++i) ++load[set_->ShardOf(core::LockName::Encode("n", std::to_string(i)))];
  for (int shard = 0; shard < 4; ++shard) EXPECT_GT(load[shard], 800);
  // A version that moves names would let two shards of one broker queue for the same lock during its roll-out.
  EXPECT_EQ(set_->ShardOf(core::LockName::Encode("default", "a")), 2);
}

TEST_F(ShardSetTest, SessionIdsAreUnique) {
  Make();
  std::vector<std::vector<core::SessionId>> made(4);
  std::vector<std::thread> threads;
  for (auto& own : made) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) own.push_back(set_->NewSessionId());
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<core::SessionId> all;
  for (const auto& own : made) all.insert(own.begin(), own.end());
  EXPECT_EQ(all.size(), 4000u);
  EXPECT_FALSE(all.contains(0));
}

}  // namespace
}  // namespace distlock::shard
