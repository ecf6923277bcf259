// SPDX-License-Identifier: Apache-2.0
#include "store/waiting_store.h"

#include <gtest/gtest.h>

#include <vector>

#include "fake_network.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The record of a store's life, which outlives it.
struct Seen {
  int opened = 0;
  std::vector<core::OpId> submitted;
  int stopped = 0;
};

class OtherStore : public Store {
 public:
  explicit OtherStore(Seen& seen) : seen_(seen) {}
  void Start(StoreListener* listener) override { listener->OnStoreInput(core::StoreUp{}); }
  void Submit(core::StoreCommand&& command) override {
    seen_.submitted.push_back(std::visit([](const auto& one) { return one.op; }, command));
  }
  void Flush() override {}
  void Inspect(const core::LockName& name, uint32_t, core::Duration,
               std::function<void(absl::StatusOr<LockView>)> done) override {
    done(LockView{.name = name});
  }
  void List(std::string, std::string, uint32_t, std::string, core::Duration,
            std::function<void(absl::StatusOr<LockPage>)> done) override {
    done(LockPage{});
  }
  bool AllServersAreUp() const override { return true; }
  void Stop() override { ++seen_.stopped; }

 private:
  Seen& seen_;
};

struct Listener : StoreListener {
  void OnStoreInput(core::Input&& input) override { heard.push_back(std::move(input)); }
  std::vector<core::Input> heard;
};

class WaitingStoreTest : public testing::Test {
 protected:
  void Inspect() {
    store.Inspect(core::LockName::Encode("n", "k"), 1, seconds(1),
                  [this](const absl::StatusOr<LockView>& view) { looks.push_back(view.status()); });
  }

  std::shared_ptr<FakeTimers> timers = std::make_shared<FakeTimers>();
  bool may_open = false;
  Seen seen;
  Listener listener;
  std::vector<absl::Status> looks;
  WaitingStore store{timers, "not ours yet", [this] { return may_open; },
                     [this] {
                       ++seen.opened;
                       return std::make_unique<OtherStore>(seen);
                     }};
};

TEST_F(WaitingStoreTest, UntilItMayOpenItIsDownAndSaysWhy) {
  store.Start(&listener);
  EXPECT_TRUE(listener.heard.empty()) << "never from inside Start";
  timers->Advance(seconds(10));
  ASSERT_EQ(listener.heard.size(), 1u) << "it says so once";
  EXPECT_EQ(std::get<core::StoreDown>(listener.heard[0]).cause, "not ours yet");
  store.Submit(core::StoreTend{.op = 7});
  Inspect();
  EXPECT_EQ(listener.heard.size(), 1u) << "never from inside Submit";
  EXPECT_TRUE(looks.empty());
  timers->Advance(milliseconds(1));
  ASSERT_EQ(listener.heard.size(), 2u);
  const auto& reply = std::get<core::StoreReply>(listener.heard[1]);
  EXPECT_EQ(reply.op, 7u);
  EXPECT_EQ(std::get<core::StoreFailed>(reply.outcome).cause, "not ours yet");
  ASSERT_EQ(looks.size(), 1u);
  EXPECT_TRUE(absl::IsUnavailable(looks[0])) << looks[0];
  EXPECT_EQ(seen.opened, 0);
  EXPECT_FALSE(store.AllServersAreUp());
}

TEST_F(WaitingStoreTest, OnceItMayOpenAllGoesToTheStoreItself) {
  store.Start(&listener);
  timers->Advance(seconds(1));
  may_open = true;
  timers->Advance(seconds(1));
  EXPECT_EQ(seen.opened, 1);
  EXPECT_TRUE(std::holds_alternative<core::StoreUp>(listener.heard.back()));
  store.Submit(core::StoreTend{.op = 8});
  EXPECT_EQ(seen.submitted, std::vector<core::OpId>{8});
  Inspect();
  ASSERT_EQ(looks.size(), 1u);
  EXPECT_TRUE(looks[0].ok()) << looks[0];
  EXPECT_TRUE(store.AllServersAreUp());
  store.Stop();
  EXPECT_GE(seen.stopped, 1);
}

TEST_F(WaitingStoreTest, StopAnswersWhoAskedAndOpensNothing) {
  store.Start(&listener);
  Inspect();
  store.Stop();
  ASSERT_EQ(looks.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(looks[0])) << looks[0];
  may_open = true;
  timers->Advance(seconds(10));
  EXPECT_EQ(seen.opened, 0);
  EXPECT_TRUE(listener.heard.empty());
}

}  // namespace
}  // namespace distlock::store
