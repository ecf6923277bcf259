// SPDX-License-Identifier: Apache-2.0
#include "shard/lent_turns.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

#include "collector.h"
#include "model_store.h"
#include "shard/boot_clock.h"

namespace distlock::shard {
namespace {

class Hoarder final : public Collector {
 public:
  bool MayHoldMany() const override { return true; }
};

// Keeps whoever sends to it between two turns.
class Gate final : public Collector {
 public:
  void Send() override {
    inside_.set_value();
    open_.get_future().wait();
  }
  void AwaitInside() { inside_.get_future().wait(); }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> inside_;
  std::promise<void> open_;
};

class LentTurnsTest : public testing::Test {
 protected:
  LentTurnsTest() {
    ShardSetOptions options;
    options.make_store = stores_.Factory();
    options.broker.store = ModelStores::kTraits;
    options.broker.validity = std::chrono::minutes(5);
    options.broker.store_timeout = std::chrono::minutes(5);
    set_ = std::make_unique<ShardSet>(std::move(options));
    set_->Start();
  }
  core::SessionId Open(const std::shared_ptr<Collector>& sink) {
    const auto session = set_->NewSessionId();
    EXPECT_TRUE(set_->TryPost(0, core::OpenSession{.session = session}, session, sink));
    EXPECT_TRUE(set_->TryPost(0, core::Heartbeat{session, kFirstBeat}));
    EXPECT_TRUE(sink->AwaitOne<core::HeartbeatAck>());  // the mailbox is empty: the next post is to wake somebody
    return session;
  }

  static constexpr uint64_t kFirstBeat = 1;

  // Now and then the shard's own thread is at work, and has the turn.
  template <typename Beat>
  void BeatUntilHeardHere(const Collector& sink, Beat beat) {
    for (uint64_t seq = kFirstBeat + 1; !sink.heard_on(here_) && BootNow() < give_up_; ++seq) beat(seq);
    EXPECT_TRUE(sink.heard_on(here_));
  }

  ModelStores stores_;
  std::unique_ptr<ShardSet> set_;
  const std::thread::id here_ = std::this_thread::get_id();
  const core::Instant give_up_ = BootNow() + std::chrono::minutes(1);
};

TEST_F(LentTurnsTest, WhatIsPostedIsHandledHere) {
  const auto sink = std::make_shared<Collector>();
  const auto session = Open(sink);
  LentTurns turns;
  EXPECT_FALSE(turns.wanted());
  BeatUntilHeardHere(*sink, [&](uint64_t seq) {
    ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, seq}));
    turns.Take();
    ASSERT_TRUE(sink->AwaitAll<core::HeartbeatAck>(seq));
  });
}

TEST_F(LentTurnsTest, NothingIsHandledHereWithoutOne) {
  const auto sink = std::make_shared<Collector>();
  const auto session = Open(sink);
  for (uint64_t seq = kFirstBeat + 1; seq <= 100; ++seq) {
    ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, seq}));
    ASSERT_TRUE(sink->AwaitAll<core::HeartbeatAck>(seq));
  }
  EXPECT_FALSE(sink->heard_on(here_));
}

TEST_F(LentTurnsTest, TheEndOfASessionThatMayHoldManyIsLeftToTheShard) {
  for (int i = 0; i < 100; ++i) {
    const auto sink = std::make_shared<Hoarder>();
    const auto session = Open(sink);
    {
      const LentTurns turns;
      set_->Post(0, core::Goodbye{session});
    }
    ASSERT_TRUE(sink->AwaitOne<core::EndStream>());
    ASSERT_FALSE(sink->heard_on(here_));
  }
}

// A lent turn finds what the one before has left, and takes nothing from the mailbox then: nor did the shard's own
// turn.
TEST_F(LentTurnsTest, WhatIsPostedBehindWhatWasLeftIsHandledToo) {
  const auto sink = std::make_shared<Collector>();
  const auto hoarder = std::make_shared<Hoarder>();
  const auto session = Open(sink), hoarding = Open(hoarder), gated = set_->NewSessionId();
  const auto gate = std::make_shared<Gate>();
  ASSERT_TRUE(set_->TryPost(0, core::OpenSession{.session = gated}, gated, gate));
  ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{gated, kFirstBeat}));
  gate->AwaitInside();
  {
    LentTurns turns;
    set_->Post(0, core::StreamEnded{hoarding});
    turns.Take();
    ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, kFirstBeat + 1}));
  }
  EXPECT_EQ(sink->calls(), 1) << "the shard's own thread is to find it";
  gate->Open();
  EXPECT_TRUE(sink->AwaitAll<core::HeartbeatAck>(2));
}

TEST_F(LentTurnsTest, EndsWithATurnForWhatWaits) {
  const auto sink = std::make_shared<Collector>();
  const auto session = Open(sink);
  {
    LentTurns turns;
    ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, kFirstBeat + 1}));
    EXPECT_TRUE(turns.wanted());
  }
  EXPECT_TRUE(sink->AwaitAll<core::HeartbeatAck>(2));
}

TEST_F(LentTurnsTest, WhatSinksHearTheySendAfterTheTurn) {
  const auto sink = std::make_shared<Collector>();
  const auto session = Open(sink);
  EXPECT_TRUE(sink->AwaitSent(1));
  BeatUntilHeardHere(*sink, [&](uint64_t seq) {
    {
      const LentTurns turns;
      ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, seq}));
    }
    ASSERT_TRUE(sink->AwaitSent(seq));
  });
}

TEST_F(LentTurnsTest, AShardThatHasStoppedTakesNoTurn) {
  const auto sink = std::make_shared<Collector>();
  const auto session = Open(sink);
  LentTurns turns;
  ASSERT_TRUE(set_->TryPost(0, core::Heartbeat{session, kFirstBeat + 1}));
  set_->Stop();
  turns.Take();
  EXPECT_FALSE(sink->heard_on(here_));
}

}  // namespace
}  // namespace distlock::shard
