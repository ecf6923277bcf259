// SPDX-License-Identifier: Apache-2.0
//
// Many threads post to the shards at once: what rpc does, without gRPC. With and without turns on the posters' threads.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "collector.h"
#include "model_store.h"
#include "shard/boot_clock.h"
#include "shard/lent_turns.h"
#include "shard/shard_set.h"

namespace distlock::shard {
namespace {

constexpr int kThreads = 6;

class ShardTrafficTest : public testing::TestWithParam<bool> {
 protected:
  void Start(int shards, size_t mailbox) {
    ShardSetOptions options;
    options.shards = shards;
    options.mailbox_capacity = mailbox;
    options.make_store = stores_.Factory();
    options.broker.store = ModelStores::kTraits;
    options.broker.validity = std::chrono::minutes(5);
    options.broker.store_timeout = std::chrono::minutes(5);
    set_ = std::make_unique<ShardSet>(std::move(options));
    set_->Start();
  }
  // As a stream that keeps on reading only when it could hand on what it read.
  void Insist(int shard, const core::Input& input, core::SessionId session = 0,
              const std::shared_ptr<Sink>& sink = nullptr) {
    while (!TryPost(shard, input, session, sink)) {
      ++refused_;
      std::this_thread::yield();
    }
  }
  bool TryPost(int shard, const core::Input& input, core::SessionId session = 0, std::shared_ptr<Sink> sink = nullptr) {
    const auto lent = Lend();
    return set_->TryPost(shard, input, session, std::move(sink));
  }
  void Post(int shard, const core::Input& input, core::SessionId session = 0, std::shared_ptr<Sink> sink = nullptr) {
    const auto lent = Lend();
    set_->Post(shard, input, session, std::move(sink));
  }
  static std::unique_ptr<LentTurns> Lend() { return GetParam() ? std::make_unique<LentTurns>() : nullptr; }
  template <typename Fn>
  static void OnThreads(Fn fn) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(fn, i);
    for (auto& thread : threads) thread.join();
  }
  bool NothingIsLeft() const {
    for (const auto& status : set_->Status()) {
      const auto& stats = status.stats;
      if (stats.sessions + stats.leases + stats.waiters + stats.pending_releases + status.mailbox_depth > 0)
        return false;
    }
    return true;
  }
  void AwaitNothingLeft() const {
    const auto give_up = BootNow() + std::chrono::minutes(1);
    while (!NothingIsLeft() && BootNow() < give_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(NothingIsLeft());
  }

  ModelStores stores_;
  std::unique_ptr<ShardSet> set_;
  std::atomic<int> refused_ = 0;
};

TEST_P(ShardTrafficTest, EveryPosterIsAnsweredInItsOrderThoughTheMailboxIsSmall) {
  constexpr uint64_t kBeats = 3000;
  Start(1, 32);
  OnThreads([&](int) {
    auto sink = std::make_shared<Collector>();
    const auto session = set_->NewSessionId();
    Insist(0, core::OpenSession{.session = session}, session, sink);
    for (uint64_t seq = 1; seq <= kBeats; ++seq) Insist(0, core::Heartbeat{session, seq});
    ASSERT_TRUE(sink->AwaitAll<core::HeartbeatAck>(kBeats));
    uint64_t expected = 0;
    for (const auto& notify : sink->heard()) EXPECT_EQ(std::get<core::HeartbeatAck>(notify.event).seq, ++expected);
    Post(0, core::StreamEnded{session});
  });
  EXPECT_TRUE(refused_ > 0 || GetParam());  // who has the turn himself makes room himself
  AwaitNothingLeft();
}

TEST_P(ShardTrafficTest, ContendedLocksAreGrantedToEverybody) {
  constexpr core::RequestId kRounds = 100;
  Start(2, 256);
  OnThreads([&](int) {
    auto sink = std::make_shared<Collector>();
    const auto session = set_->NewSessionId();
    for (int shard = 0; shard < 2; ++shard) Insist(shard, core::OpenSession{.session = session}, session, sink);
    for (core::RequestId round = 1; round <= kRounds; ++round) {
      const auto acquire = AcquireOf(session, 2 * round, "contended" + std::to_string(round % 3));
      const int shard = set_->ShardOf(acquire.name);
      Insist(shard, acquire);
      ASSERT_TRUE(sink->AwaitAll<core::Granted>(round));
      Post(shard, core::Release{.session = session, .request = 2 * round + 1, .acquire = 2 * round, .name = {}});
    }
    ASSERT_TRUE(sink->AwaitAll<core::Released>(kRounds));
    for (int shard = 0; shard < 2; ++shard) Post(shard, core::StreamEnded{session});
  });
  AwaitNothingLeft();
}

TEST_P(ShardTrafficTest, StreamsThatEndInAnyStateLeaveNothing) {
  Start(2, 1024);
  std::atomic<bool> all_posted = false;
  std::thread weather([&] {
    for (int i = 0; !all_posted; ++i) {
      stores_.HoldReplies(i % 2 == 0);
      stores_.LoseReplies(i % 3);
      std::this_thread::yield();
    }
    stores_.HoldReplies(false);
    stores_.LoseReplies(0);
  });
  std::vector<std::weak_ptr<Collector>> sinks[kThreads];
  OnThreads([&](int thread) {
    for (core::RequestId i = 1; i <= 200; ++i) {
      auto sink = std::make_shared<Collector>();
      sinks[thread].push_back(sink);
      const auto session = set_->NewSessionId();
      const auto acquire = AcquireOf(session, 1, "lock" + std::to_string(i % 5));
      const int shard = set_->ShardOf(acquire.name);
      Insist(shard, core::OpenSession{.session = session}, session, sink);
      Insist(shard, acquire);
      if (i % 4 == 0) sink->Await([](const auto& heard) { return !heard.empty(); });
      if (i % 4 == 1) Post(shard, core::Cancel{session, 1});
      if (i % 4 == 2) Post(shard, core::Goodbye{session});
      Post(shard, core::StreamEnded{session});
    }
  });
  all_posted = true;
  weather.join();
  AwaitNothingLeft();
  for (const auto& own : sinks) {
    for (const auto& sink : own) EXPECT_TRUE(sink.expired());
  }
}

TEST_P(ShardTrafficTest, StopsWhileEverybodyStillPosts) {
  Start(2, 128);
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    EXPECT_TRUE(stores_.Await([](const auto& counts) { return counts.commands > 500; }));
    set_->Stop();
    stopped = true;
  });
  OnThreads([&](int) {
    auto sink = std::make_shared<Collector>();
    const auto session = set_->NewSessionId();
    for (int shard = 0; shard < 2; ++shard) Post(shard, core::OpenSession{.session = session}, session, sink);
    for (core::RequestId i = 1; !stopped; ++i) {
      const auto acquire = AcquireOf(session, i, "lock" + std::to_string(i % 50));
      const int shard = set_->ShardOf(acquire.name);
      if (TryPost(shard, acquire)) Post(shard, core::Cancel{session, i});
    }
    EXPECT_FALSE(TryPost(0, core::Heartbeat{session, 1}));
    Post(0, core::StreamEnded{session});
  });
  stopper.join();
  EXPECT_EQ(stores_.counts().stopped, 2u);
}

INSTANTIATE_TEST_SUITE_P(Turns, ShardTrafficTest, testing::Bool(),
                         [](const auto& turns) { return std::string(turns.param ? "Lent" : "Own"); });

}  // namespace
}  // namespace distlock::shard
