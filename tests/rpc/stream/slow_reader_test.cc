// SPDX-License-Identifier: Apache-2.0
//
// Clients that do not read their events.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>

#include <string>
#include <utility>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

// No lease ends by itself while a test runs.
TestOptions WithLongValidity() {
  TestOptions options;
  options.server.limits.validity = std::chrono::seconds(30);
  return options;
}

// Opens the session and takes the lock "precious", which is to be freed as soon as the stream ends.
void TakePrecious(TestSession& session) {
  session.Open();
  v1::LockSpec& spec = *session.Add(2).mutable_acquire()->add_locks();
  spec.set_key("precious");
  spec.set_on_disconnect(v1::ON_DISCONNECT_RELEASE);
  session.Send();
  while (!session.Next().has_granted()) {
  }
}

// Tries for the lock "held" under the ids 100 .. `end` - 1, without reading an answer. False: the broker closed the
// stream meanwhile.
bool SendTries(TestSession& session, uint64_t end) {
  for (uint64_t id = 100; id < end; id += 50) {
    for (uint64_t i = 0; i < 50; ++i) session.Acquire(id + i, "held", /*one_try=*/true);
    if (!session.Send()) return false;
  }
  return true;
}

TEST(SlowReader, OverflowClosesTheStreamAndFreesItsLeases) {
  TestOptions options = WithLongValidity();
  options.server.limits.outbox_messages = 16;
  TestBroker broker(options);
  broker.Take("held");
  TestSession session(broker.locks());
  TakePrecious(session);
  ASSERT_FALSE(SendTries(session, 1'000'000)) << "the broker took everything";
  // Before the client reads again: no write has to complete for the leases to be freed.
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions + stats.leases == 0; }));
  EXPECT_FALSE(broker.IsHeld("precious"));
  const grpc::Status status = session.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr("does not read"));
  broker.Take("alive");
}

TEST(SlowReader, CancelDuringAStuckWriteFreesTheLeases) {
  TestBroker broker(WithLongValidity());
  broker.Take("held");
  {
    TestSession session(broker.locks());
    TakePrecious(session);
    ASSERT_TRUE(SendTries(session, 5000));
    session.context().TryCancel();
  }
  EXPECT_TRUE(broker.Await(
      [](const core::BrokerStats& stats) { return stats.sessions + stats.leases + stats.pending_releases == 0; }));
  EXPECT_FALSE(broker.IsHeld("precious"));
}

TEST(SlowReader, StopDoesNotWaitForAReader) {
  TestBroker broker(WithLongValidity());
  broker.Take("held");
  TestSession session(broker.locks());
  session.Open();
  ASSERT_TRUE(SendTries(session, 5000));
  broker.server().Stop(std::chrono::milliseconds(50));
}

// A session that many events wait for is ended; another one, of the same peer, is not.
void ExpectTheLargestIsEnded(TestOptions options) {
  TestBroker broker(std::move(options));
  const std::string key = "held" + std::string(500, '.');
  const v1::Grant held = broker.Take(key);
  TestSession small(broker.locks());
  small.Open().Acquire(2, "small").Send();
  // The client's side takes no more than one window of what nobody reads.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::LockService::NewStub(
      grpc::CreateCustomChannel(broker.address(), grpc::InsecureChannelCredentials(), arguments));
  TestSession large(*stub);
  large.Open().Send();
  // They wait, and are granted together. No more than a few of them are unread meanwhile.
  for (uint64_t id = 100; id < 1500; id += 50) {
    for (uint64_t i = 0; i < 50; ++i) {
      v1::LockSpec& lock = *large.Add(id + i).mutable_acquire()->add_locks();
      lock.set_key(key);
      lock.set_mode(v1::LOCK_MODE_SHARED);
    }
    ASSERT_TRUE(large.Send());
    for (int queued = 0; queued < 50;) {
      const v1::SessionEvent event = large.Next();
      ASSERT_TRUE(event.has_opened() || event.has_queued()) << event.ShortDebugString();
      queued += event.has_queued();
    }
  }
  broker.Release(held.lease_id());
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions == 1; }))
      << broker.server().unwritten_bytes() << " bytes are unwritten";
  const grpc::Status status = large.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr("does not read"));
  small.Release(3, 2).Send();
  for (v1::SessionEvent event = small.Next(); !event.has_released(); event = small.Next()) {
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
  }
  EXPECT_TRUE(broker.Await([&](const core::BrokerStats&) { return broker.server().unwritten_bytes() == 0; }));
}

TEST(SlowReader, WhatAPeerDoesNotReadIsBounded) {
  TestOptions options = WithLongValidity();
  options.server.limits.outbox_bytes_per_peer = size_t{96} << 10;
  ExpectTheLargestIsEnded(options);
}

TEST(SlowReader, WhatAllDoNotReadIsBounded) {
  TestOptions options = WithLongValidity();
  options.server.limits.outbox_bytes = size_t{96} << 10;
  ExpectTheLargestIsEnded(options);
}

TEST(SlowReader, ManyAnswersComeInBoundedMessages) {
  TestOptions options;
  options.server.limits.max_metadata_bytes = 8192;
  TestBroker broker(options);
  v1::AcquireRequest request;
  request.add_locks()->set_key("held");
  (*request.mutable_locks(0)->mutable_metadata())["m"] = std::string(8000, 'x');
  v1::AcquireResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.locks().Acquire(&context, request, &response).ok());

  TestSession session(broker.locks());
  session.Open();
  constexpr uint64_t kTries = 1500;
  for (uint64_t i = 0; i < kTries; ++i) session.Acquire(10 + i, "held", /*one_try=*/true);
  session.Send();
  for (uint64_t refused = 0; refused < kTries;) {
    const v1::SessionEvent event = session.Next();
    ASSERT_NE(event.event_case(), v1::SessionEvent::EVENT_NOT_SET);
    refused += event.has_refused();
  }
  EXPECT_LT(session.largest_message(), size_t{1} << 20);
}

}  // namespace
}  // namespace distlock::rpc
