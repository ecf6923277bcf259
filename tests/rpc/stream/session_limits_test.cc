// SPDX-License-Identifier: Apache-2.0
//
// The limits of one session: numbers and rates.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "rpc/rate_limit.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST(RateLimit, ADebtDelaysTheNextToken) {
  RateLimit rate(10);
  core::Instant now(seconds(100));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rate.Take(now));
  EXPECT_FALSE(rate.Take(now));
  for (int i = 0; i < 1000; ++i) rate.Charge(now);
  now += seconds(1);
  EXPECT_FALSE(rate.Take(now));
  EXPECT_EQ(std::chrono::round<milliseconds>(rate.Wait()), milliseconds(100));
  now += milliseconds(101);
  EXPECT_TRUE(rate.Take(now)) << "no more than a second's worth is owed";
  RateLimit none(0);
  none.Charge(now);
  EXPECT_TRUE(none.Take(now));
}

TEST(SessionLimits, Leases) {
  TestOptions options;
  options.server.limits.max_leases_per_session = 2;
  TestBroker broker(options);
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Acquire(3, "b").Acquire(4, "c").Send();
  std::map<uint64_t, v1::SessionEvent> by_id;
  while (by_id.size() < 4) {
    const v1::SessionEvent event = session.Next();
    by_id[event.id()] = event;
  }
  EXPECT_EQ(by_id[4].refused().reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
  EXPECT_THAT(by_id[4].refused().message(), HasSubstr("limit max-leases-per-session"));
}

TEST(SessionLimits, Requests) {
  TestOptions slow;
  slow.server.limits.requests_per_second = 3;
  TestBroker limited(slow);
  TestSession hurried(limited.locks());
  hurried.Open();
  for (uint64_t i = 0; i < 20; ++i) hurried.Acquire(10 + i, "k" + std::to_string(i));
  hurried.Send();
  int refused = 0;
  for (int answers = 0; answers < 20;) {
    const v1::SessionEvent event = hurried.Next();
    if (event.has_granted() || event.has_refused()) ++answers;
    if (!event.has_refused()) continue;
    ++refused;
    EXPECT_EQ(event.refused().reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
    EXPECT_TRUE(event.refused().has_retry_after());
  }
  EXPECT_GE(refused, 16);
}

TEST(SessionLimits, ReleasesCountAndAreNeverRefused) {
  TestOptions slow;
  slow.server.limits.requests_per_second = 5;
  TestBroker limited(slow);
  TestSession session(limited.locks());
  session.Open().Acquire(2, "a").Send();
  while (!session.Next().has_granted()) {
  }
  for (uint64_t id = 10; id < 40; ++id) session.Release(id, 2);
  session.Cancel(2).Acquire(99, "b").Send();
  int released = 0;
  bool refused = false;
  while (released < 30 || !refused) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_released()) ++released;
    if (!event.has_refused()) continue;
    EXPECT_EQ(event.id(), 99u);
    EXPECT_EQ(event.refused().reason(), v1::REFUSAL_REASON_QUOTA_EXCEEDED);
    refused = true;
  }
  EXPECT_FALSE(limited.IsHeld("a"));
}

TEST(SessionLimits, AStreamThatNeverSendsOpenIsEnded) {
  TestOptions options;
  options.server.limits.open_timeout = milliseconds(1);
  TestBroker broker(options);
  TestSession session(broker.locks());
  const grpc::Status status = session.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Details(status).reason, "INVALID_ARGUMENT");
  EXPECT_THAT(status.error_message(), HasSubstr("no OpenSession has come for 0.001 s"));
}

TEST(SessionLimits, AStreamThatHasSentOpenMayStay) {
  TestOptions options;
  options.server.limits.open_timeout = seconds(1);
  options.core.validity = options.server.limits.validity = seconds(60);
  TestBroker broker(options);
  broker.Take("a");
  TestSession session(broker.locks());
  session.Open();
  v1::LockSpec& spec = *session.Add(2).mutable_acquire()->add_locks();
  spec.set_key("a");
  spec.mutable_max_wait()->set_seconds(2);
  session.Send();
  v1::SessionEvent event;
  while (!event.has_refused()) {
    event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET) << "it ended";
  }
  EXPECT_EQ(event.refused().reason(), v1::REFUSAL_REASON_WAIT_TIMEOUT);
}

// Each refusal takes its time here.
class SlowObserver final : public CallObserver {
 public:
  void OnStreamClosed(StreamClose) override {}
  void OnRefusedHere(core::RefusalReason) override {
    ++refused;
    refused.notify_all();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  void OnQueued(uint32_t) override {}
  void OnReleasedNothing() override {}

  std::atomic<uint64_t> refused = 0;
};

// Commands that no shard has to see are refused where they are read.
TEST(SessionLimits, OthersAreServedBesideAMessageOfMistakes) {
  constexpr uint64_t kMistakes = 3000;
  SlowObserver observer;
  TestOptions options;
  options.server.observer = &observer;
  TestBroker broker(options);
  TestSession other(broker.locks());
  ASSERT_TRUE(other.Open().Send());
  EXPECT_TRUE(other.Next().has_opened());
  const auto stub = v1::LockService::NewStub(broker.NewChannel());
  TestSession session(*stub);
  session.Open();
  for (uint64_t id = 2; id < kMistakes + 2; ++id) session.Add(id);
  ASSERT_TRUE(session.Send());
  // Some parts of the message are done, and most are not.
  for (uint64_t n = 0; (n = observer.refused) < kMistakes / 10;) observer.refused.wait(n);
  ASSERT_TRUE(other.Heartbeat(1).Send());
  EXPECT_TRUE(other.Next().has_heartbeat_ack());
  EXPECT_LT(observer.refused, kMistakes / 2);
  EXPECT_TRUE(session.Next().has_opened());
  for (uint64_t id = 2; id < kMistakes + 2; ++id) {
    const v1::SessionEvent event = session.Next();
    ASSERT_EQ(event.id(), id);
    ASSERT_TRUE(event.has_refused());
  }
}

}  // namespace
}  // namespace distlock::rpc
