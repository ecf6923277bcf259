// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <set>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

class SessionOnShards : public testing::TestWithParam<int> {
 protected:
  static TestOptions Options() { return {.shards = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Shards, SessionOnShards, testing::Values(1, 4));

TEST_P(SessionOnShards, OpensFirst) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  session.Open(7).Send();
  const v1::SessionEvent opened = session.Next();
  EXPECT_EQ(opened.id(), 7u);
  EXPECT_EQ(opened.opened().broker_id(), "00112233445566aa");
  EXPECT_EQ(opened.opened().validity().seconds(), 3);
  EXPECT_EQ(opened.opened().heartbeat_interval().seconds(), 1);
}

TEST_P(SessionOnShards, ABatchOfLocksInOneMessage) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  constexpr uint64_t kLocks = 500;
  session.Open(1);
  for (uint64_t i = 0; i < kLocks; ++i) session.Acquire(10 + i, "k" + std::to_string(i));
  session.Send();
  std::set<uint64_t> granted;
  while (granted.size() < kLocks) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_granted() && !granted.insert(event.id()).second) ADD_FAILURE() << event.id() << " twice";
  }
  for (uint64_t i = 0; i < kLocks; ++i) session.Release(1000 + i, 10 + i);
  session.Send();
  std::set<uint64_t> released;
  while (released.size() < kLocks) {
    const v1::SessionEvent event = session.Next();
    ASSERT_TRUE(event.has_released()) << event.ShortDebugString();
    EXPECT_EQ(event.released().outcome(), v1::RELEASE_OUTCOME_RELEASED);
    EXPECT_TRUE(released.insert(event.id()).second);
  }
  session.Goodbye().Send();
  EXPECT_TRUE(session.Finish().ok());
}

TEST_P(SessionOnShards, CommandsOfOneMessageKeepTheirOrder) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Release(3, 2).Acquire(4, "a").Cancel(4).Acquire(5, "a").Send();
  std::map<uint64_t, v1::SessionEvent> last;
  while (!last[5].has_granted()) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    last[event.id()] = event;
  }
  EXPECT_TRUE(last[3].has_released());
  EXPECT_EQ(last[4].refused().reason(), v1::REFUSAL_REASON_CANCELLED);
  EXPECT_THAT(last[4].refused().message(), HasSubstr("withdrawn"));
}

TEST_P(SessionOnShards, OneAckForAllShards) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  session.Open();
  for (uint64_t i = 0; i < 16; ++i) session.Acquire(10 + i, "k" + std::to_string(i));
  session.Heartbeat(1).Send();
  session.Heartbeat(2).Send();
  std::vector<uint64_t> acks;
  int granted = 0;
  while (granted < 16 || acks.empty() || acks.back() < 2) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_granted()) ++granted;
    if (!event.has_heartbeat_ack()) continue;
    EXPECT_EQ(event.id(), 0u);
    EXPECT_EQ(event.heartbeat_ack().valid_for().seconds(), 2) << "3 s, less the drift of two clocks";
    EXPECT_EQ(event.heartbeat_ack().limits_size(), 0);
    acks.push_back(event.heartbeat_ack().seq());
  }
  EXPECT_TRUE(std::is_sorted(acks.begin(), acks.end()));
  EXPECT_LE(acks.size(), 2u);
}

TEST_P(SessionOnShards, ShortLeasesAreLimits) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  session.Open();
  v1::LockSpec& spec = *session.Add(5).mutable_acquire()->add_locks();
  spec.set_key("short");
  spec.mutable_ttl()->set_seconds(1);
  session.Acquire(6, "long").Send();
  std::set<uint64_t> granted;
  while (granted.size() < 2) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_granted()) granted.insert(event.id());
  }
  session.Heartbeat(1).Send();
  v1::SessionEvent ack = session.Next();
  while (!ack.has_heartbeat_ack()) ack = session.Next();
  ASSERT_EQ(ack.heartbeat_ack().limits_size(), 1) << ack.ShortDebugString();
  EXPECT_EQ(ack.heartbeat_ack().limits(0).acquire_id(), 5u);
  EXPECT_EQ(ack.heartbeat_ack().limits(0).valid_for().seconds(), 0);
}

TEST_P(SessionOnShards, NoHeartbeatLapses) {
  TestOptions options = Options();
  options.server.limits.validity = std::chrono::milliseconds(200);
  TestBroker broker(options);
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  const grpc::Status status = session.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Details(status).reason, "LEASE_LOST");
  EXPECT_EQ(Details(status).facts.at("lost_reason"), "EXPIRED");
  EXPECT_THAT(status.error_message(), HasSubstr("heartbeat"));
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions + stats.leases == 0; }));
}

TEST_P(SessionOnShards, GoodbyeFreesAtOnce) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  session.Open();
  for (uint64_t i = 0; i < 8; ++i) session.Acquire(10 + i, "k" + std::to_string(i));
  session.Send();
  for (int granted = 0; granted < 8;) granted += session.Next().has_granted();
  session.Goodbye().Send();
  EXPECT_TRUE(session.Finish().ok());
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.leases + stats.pending_releases == 0; }));
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(broker.IsHeld("k" + std::to_string(i)));
}

TEST_P(SessionOnShards, HalfCloseWithoutGoodbyeIsABreak) {
  TestOptions options = Options();
  options.server.limits.validity = std::chrono::milliseconds(500);
  TestBroker broker(options);
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  while (!session.Next().has_granted()) {
  }
  session.HalfClose();
  session.Finish();
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions == 0; }));
  // Freed when the last promise has passed, not before.
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.leases + stats.pending_releases == 0; }));
  EXPECT_FALSE(broker.IsHeld("a"));
}

TEST_P(SessionOnShards, ReleaseByLeaseIdFreesTheAcquiresId) {
  TestBroker broker(Options());
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  v1::SessionEvent event = session.Next();
  while (!event.has_granted()) event = session.Next();
  session.Add(3).mutable_release()->set_lease_id(event.granted().lease_id());
  session.Send();
  EXPECT_TRUE(session.Next().has_released());
  session.Acquire(2, "a").Send();
  EXPECT_TRUE(session.Next().has_granted());
  session.Goodbye().Send();
  EXPECT_TRUE(session.Finish().ok());
}

TEST(Session, AReleaseByAnotherCallerIsReported) {
  TestBroker broker;
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  v1::SessionEvent event = session.Next();
  while (!event.has_granted()) event = session.Next();
  v1::ReleaseRequest request;
  request.set_lease_id(event.granted().lease_id());
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.locks().Release(&context, request, &response).ok());
  event = session.Next();
  EXPECT_TRUE(event.has_released());
  EXPECT_EQ(event.id(), 2u);
}

TEST(Session, RefusesAWrongCommandUnderItsId) {
  TestBroker broker;
  broker.Take("held");
  TestSession session(broker.locks());
  session.Open().Acquire(2, "").Acquire(3, "held", /*one_try=*/true).Release(4, 99);
  session.Add(5);
  session.Add(6).mutable_release()->set_lease_id("nonsense");
  session.Send();
  std::map<uint64_t, v1::SessionEvent> by_id;
  while (by_id.size() < 6) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    by_id[event.id()] = event;
  }
  EXPECT_EQ(by_id[2].refused().reason(), v1::REFUSAL_REASON_INVALID_ARGUMENT);
  EXPECT_EQ(by_id[2].refused().field_problems(0).field(), "acquire.locks[0].key");
  EXPECT_EQ(by_id[3].refused().reason(), v1::REFUSAL_REASON_LOCK_HELD);
  EXPECT_EQ(by_id[3].refused().holders(0).owner(), "taker");
  EXPECT_THAT(by_id[3].refused().message(), HasSubstr("default:held"));
  EXPECT_EQ(by_id[4].released().outcome(), v1::RELEASE_OUTCOME_ALREADY_GONE);
  EXPECT_EQ(by_id[5].refused().reason(), v1::REFUSAL_REASON_NOT_SUPPORTED);
  EXPECT_EQ(by_id[6].refused().field_problems(0).field(), "release.lease_id");
}

struct Breach {
  const char* message;
  std::function<void(TestSession&)> commands;
};

TEST(Session, AProtocolBreachEndsTheStream) {
  const std::vector<Breach> table = {
      {"must be OpenSession", [](TestSession& s) { s.Acquire(1, "a"); }},
      {"must be OpenSession", [](TestSession& s) { s.Heartbeat(1); }},
      {"OpenSession came twice", [](TestSession& s) { s.Open(1).Open(2); }},
      {"commands.id is 0", [](TestSession& s) { s.Open(0); }},
      {"commands.id is 0", [](TestSession& s) { s.Open().Acquire(0, "a"); }},
      {"heartbeat.seq is -1", [](TestSession& s) { s.Open().Heartbeat(~uint64_t{0}); }},
      {"commands.id is -1", [](TestSession& s) { s.Open().Acquire(~uint64_t{0}, "a"); }},
      {"commands.id 5 is in use", [](TestSession& s) { s.Open().Acquire(5, "a").Acquire(5, "b"); }},
      {"commands.id 5 is in use", [](TestSession& s) { s.Open().Acquire(5, "a").Release(5, 5); }},
      {"leaves no ids for 2 locks",
       [](TestSession& s) {
         v1::AcquireLocks& all = *s.Open().Add(std::numeric_limits<int64_t>::max()).mutable_acquire();
         for (const char* key : {"a", "b"}) all.add_locks()->set_key(key);
       }},
      {"after Goodbye", [](TestSession& s) { s.Open().Goodbye().Acquire(5, "a"); }},
  };
  TestBroker broker;
  for (const Breach& row : table) {
    TestSession session(broker.locks());
    row.commands(session);
    session.Send();
    const grpc::Status status = session.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << row.message;
    EXPECT_THAT(status.error_message(), HasSubstr(row.message));
    EXPECT_EQ(Details(status).reason, "INVALID_ARGUMENT");
  }
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions == 0; }));
}

TEST(Session, AHeartbeatThatCrossesGoodbyeIsIgnored) {
  TestBroker broker;
  TestSession session(broker.locks());
  session.Open().Goodbye().Heartbeat(1).Send();
  EXPECT_TRUE(session.Finish().ok());
}

TEST(Session, AFullMailboxOnlyRefuses) {
  TestOptions options;
  options.mailbox_capacity = 8;
  TestBroker broker(options);
  TestSession session(broker.locks());
  session.Open();
  for (uint64_t i = 0; i < 100; ++i) session.Acquire(10 + i, "k" + std::to_string(i));
  session.Send();
  int refused = 0;
  for (int answers = 0; answers < 100;) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_granted() || event.has_refused()) ++answers;
    refused += event.has_refused();
    EXPECT_TRUE(!event.has_refused() || event.refused().reason() == v1::REFUSAL_REASON_QUOTA_EXCEEDED);
  }
  EXPECT_EQ(refused, 100) << "a batch is posted whole or not at all";
  session.Acquire(10, "k").Send();
  EXPECT_TRUE(session.Next().has_granted());
}

TEST(Session, DrainingIsSentAndNewLocksAreRefused) {
  TestBroker broker;
  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  while (!session.Next().has_granted()) {
  }
  broker.server().Drain();
  broker.shards().Drain(std::chrono::seconds(30), [] {});
  EXPECT_TRUE(session.Next().has_draining());
  session.Acquire(3, "b").Send();
  EXPECT_EQ(session.Next().refused().reason(), v1::REFUSAL_REASON_DRAINING);
  session.Release(4, 2).Send();
  EXPECT_TRUE(session.Next().has_released());
  broker.server().Stop(std::chrono::seconds(1));
  const grpc::Status status = session.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Details(status).reason, "DRAINING");
}

TEST(Session, ADrainingBrokerTakesNoNewSession) {
  TestBroker broker;
  broker.server().Drain();
  TestSession late(broker.locks());
  EXPECT_EQ(Details(late.Finish()).reason, "DRAINING");
}

TEST(Session, CancelAtAnyMomentLeavesNothing) {
  TestBroker broker({.shards = 4});
  for (int i = 0; i < 100; ++i) {
    TestSession session(broker.locks());
    session.Open();
    for (uint64_t k = 0; k < 20; ++k) session.Acquire(10 + k, "k" + std::to_string(k));
    session.Send();
    for (int events = 0; events < i % 20; ++events) session.Next();
  }
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) {
    return stats.sessions + stats.leases + stats.waiters + stats.pending_releases == 0;
  }));
}

}  // namespace
}  // namespace distlock::rpc
