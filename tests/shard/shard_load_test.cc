// SPDX-License-Identifier: Apache-2.0
//
// A shard that has more to do than it can: who is delayed, and what waits where.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collector.h"
#include "model_store.h"
#include "shard/boot_clock.h"
#include "shard/shard_set.h"
#include "shard/store_pace.h"

namespace distlock::shard {
namespace {

class ShardLoadTest : public testing::Test {
 protected:
  void Make(size_t mailbox) {
    ShardSetOptions options;
    options.mailbox_capacity = mailbox;
    options.make_store = stores_.Factory();
    options.broker.store = ModelStores::kTraits;
    options.broker.validity = std::chrono::minutes(5);  // no heartbeats are needed
    options.broker.store_timeout = std::chrono::minutes(5);
    set_ = std::make_unique<ShardSet>(std::move(options));
  }
  // For what only a snapshot shows.
  static bool Eventually(const std::function<bool()>& holds) {
    const auto give_up = BootNow() + std::chrono::minutes(1);
    while (!holds()) {
      if (BootNow() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  ModelStores stores_;
  std::unique_ptr<ShardSet> set_;
  std::shared_ptr<Collector> sink_ = std::make_shared<Collector>();
};

// Releases of nothing are answered at once.
core::Release NothingOf(core::SessionId session, core::RequestId request) {
  return {.session = session, .request = request, .acquire = 1'000'000, .name = {}};
}

TEST_F(ShardLoadTest, ASessionThatSendsVeryMuchKeepsNobodyWaiting) {
  constexpr core::RequestId kMany = 20'000;
  Make(2 * kMany);  // not started: all of it waits
  const auto sender = set_->NewSessionId(), other = set_->NewSessionId();
  ASSERT_TRUE(set_->TryPostFirst(0, core::OpenSession{.session = sender}, sink_));
  for (core::RequestId i = 1; i <= kMany; ++i) set_->Post(0, NothingOf(sender, i));
  ASSERT_TRUE(set_->TryPostFirst(0, core::OpenSession{.session = other}, sink_));
  set_->Post(0, NothingOf(other, kMany + 1));
  ASSERT_TRUE(set_->TryPostFirst(0, core::Heartbeat{other, 1}));
  set_->Start();
  ASSERT_TRUE(sink_->AwaitAll<core::Released>(kMany + 1));
  const auto heard = sink_->heard();
  const auto at = [&](const auto& is) { return std::find_if(heard.begin(), heard.end(), is) - heard.begin(); };
  // Both sessions have one sink: what it hears of one of them comes together, in each turn.
  EXPECT_LT(at([](const core::Notify& one) { return std::holds_alternative<core::HeartbeatAck>(one.event); }), 1100);
  EXPECT_LT(at([](const core::Notify& one) { return one.request == kMany + 1; }), 1100);
  EXPECT_TRUE(Eventually([this] { return set_->Status()[0].mailbox_depth == 0; }));
}

// Else a renewal would stand behind all of it on the connection.
TEST_F(ShardLoadTest, WhatABusyStoreCannotTakeWaitsInTheBroker) {
  constexpr core::RequestId kMany = 10'000;
  Make(kMany);
  set_->Start();
  ASSERT_TRUE(Eventually([this] { return set_->Status()[0].store_up; }));
  const auto session = set_->NewSessionId();
  ASSERT_TRUE(set_->TryPostFirst(0, core::OpenSession{.session = session}, sink_));
  stores_.HoldReplies(true);
  for (core::RequestId i = 1; i <= kMany; ++i) {
    ASSERT_TRUE(set_->TryPost(0, AcquireOf(session, i, "k" + std::to_string(i))));
  }
  ASSERT_TRUE(set_->TryPostFirst(0, core::Heartbeat{session, 1}));
  ASSERT_TRUE(sink_->AwaitOne<core::HeartbeatAck>());
  // As many as a store may have that has answered nothing yet.
  EXPECT_TRUE(Eventually([this] { return set_->Status()[0].mailbox_depth == kMany - StorePace::kFew; }));
  EXPECT_EQ(set_->Status()[0].mailbox_depth, kMany - StorePace::kFew);
  stores_.HoldReplies(false);
  EXPECT_TRUE(sink_->AwaitAll<core::Granted>(kMany));
}

TEST_F(ShardLoadTest, AReaderWithoutRoomIsWokenWhenHalfIsHandled) {
  std::atomic<bool> awaited = false;
  MailShare share(10, awaited);
  Make(100);
  const auto session = set_->NewSessionId();
  ASSERT_TRUE(set_->TryPostFirst(0, core::OpenSession{.session = session}, sink_));
  std::vector<core::Input> inputs;
  for (core::RequestId i = 1; i <= 10; ++i) inputs.emplace_back(NothingOf(session, i));
  ASSERT_TRUE(set_->TryPost(0, std::move(inputs), &share));
  EXPECT_EQ(share.room(), 0);
  awaited = true;
  set_->Start();
  ASSERT_TRUE(sink_->AwaitSent(10));
  EXPECT_EQ(share.room(), 10);
}

}  // namespace
}  // namespace distlock::shard
