// SPDX-License-Identifier: Apache-2.0
#include "shard/listeners.h"

#include <gtest/gtest.h>

#include <utility>

namespace distlock::shard {
namespace {

struct Recorder : Sink {
  void OnEvents(int shard, std::vector<core::Notify> events) override {
    EXPECT_EQ(shard, 7);
    calls.emplace_back();
    for (auto& event : events) calls.back().push_back(event.request);
  }
  void Send() override {}
  std::vector<std::vector<core::RequestId>> calls;
};

core::Notify To(core::SessionId session, core::RequestId request) { return {session, request, core::Draining{}}; }

TEST(Listeners, EachHearsOfATurnOnceInOrder) {
  Listeners listeners(7);
  auto a = std::make_shared<Recorder>(), b = std::make_shared<Recorder>();
  listeners.Attach(1, a);
  listeners.Attach(2, b);
  listeners.Gather(To(1, 10));
  listeners.Gather(To(2, 20));
  listeners.Gather(To(1, 11));
  listeners.Gather(To(3, 30));  // nobody
  listeners.Deliver();
  listeners.Deliver();
  listeners.Gather(To(1, 12));
  listeners.Deliver();
  EXPECT_EQ(a->calls, (std::vector<std::vector<core::RequestId>>{{10, 11}, {12}}));
  EXPECT_EQ(b->calls, (std::vector<std::vector<core::RequestId>>{{20}}));
  EXPECT_EQ(listeners.TakeTold(), (std::vector<std::shared_ptr<Sink>>{a, b, a}));
  EXPECT_TRUE(listeners.TakeTold().empty());
}

// Events that cross the end of a call must be heard: a grant is given back by whoever asked for it.
TEST(Listeners, DetachedHearsWhatIsGatheredAndNothingMoreAndIsLetGo) {
  Listeners listeners(7);
  auto sink = std::make_shared<Recorder>();
  listeners.Attach(1, sink);
  listeners.Gather(To(1, 10));
  listeners.Detach(1);
  listeners.Detach(1);
  listeners.Gather(To(1, 11));
  EXPECT_EQ(listeners.size(), 0u);
  listeners.Deliver();
  listeners.Deliver();
  EXPECT_EQ(sink->calls, (std::vector<std::vector<core::RequestId>>{{10}}));
  EXPECT_EQ(listeners.TakeTold(), (std::vector<std::shared_ptr<Sink>>{sink}));
  EXPECT_EQ(sink.use_count(), 1);
}

TEST(Listeners, AttachedAgainHearsOfBothInOneCall) {
  Listeners listeners(7);
  auto sink = std::make_shared<Recorder>();
  listeners.Attach(1, sink);
  listeners.Gather(To(1, 10));
  listeners.Attach(1, sink);
  listeners.Gather(To(1, 11));
  listeners.Deliver();
  EXPECT_EQ(sink->calls, (std::vector<std::vector<core::RequestId>>{{10, 11}}));
}

}  // namespace
}  // namespace distlock::shard
