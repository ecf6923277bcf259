// SPDX-License-Identifier: Apache-2.0
//
// Clients that do not read their events.
#include <gmock/gmock.h>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

// Tries for a held lock, without reading an answer, until the broker closes the stream.
void Flood(TestSession& session, const std::string& held) {
  for (uint64_t id = 100; id < 1'000'000; id += 50) {
    for (uint64_t i = 0; i < 50; ++i) session.Acquire(id + i, held, /*one_try=*/true);
    if (!session.Send()) return;
  }
  FAIL() << "the broker took everything";
}

TEST(SlowReader, OverflowClosesTheStreamAndFreesItsLeases) {
  TestOptions options;
  options.server.limits.outbox_messages = 16;
  options.server.limits.validity = std::chrono::seconds(30);
  TestBroker broker(options);
  broker.Take("held");
  TestSession session(broker.locks());
  session.Open();
  v1::LockSpec& spec = *session.Add(2).mutable_acquire();
  spec.set_key("precious");
  spec.set_on_disconnect(v1::ON_DISCONNECT_RELEASE);
  session.Send();
  while (!session.Next().has_granted()) {
  }
  Flood(session, "held");
  // Before the client reads again: no write has to complete for the leases to be freed.
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions + stats.leases == 0; }));
  EXPECT_FALSE(broker.IsHeld("precious"));
  const grpc::Status status = session.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(), testing::HasSubstr("does not read"));
  broker.Take("alive");
}

TEST(SlowReader, CancelDuringAStuckWriteFreesTheLeases) {
  TestOptions options;
  options.server.limits.validity = std::chrono::seconds(30);
  TestBroker broker(options);
  broker.Take("held");
  {
    TestSession session(broker.locks());
    session.Open();
    v1::LockSpec& spec = *session.Add(2).mutable_acquire();
    spec.set_key("precious");
    spec.set_on_disconnect(v1::ON_DISCONNECT_RELEASE);
    session.Send();
    while (!session.Next().has_granted()) {
    }
    for (uint64_t id = 100; id < 5000; id += 50) {
      for (uint64_t i = 0; i < 50; ++i) session.Acquire(id + i, "held", /*one_try=*/true);
      ASSERT_TRUE(session.Send());
    }
    session.context().TryCancel();
  }
  EXPECT_TRUE(broker.Await(
      [](const core::BrokerStats& stats) { return stats.sessions + stats.leases + stats.pending_releases == 0; }));
  EXPECT_FALSE(broker.IsHeld("precious"));
}

TEST(SlowReader, StopDoesNotWaitForAReader) {
  TestOptions options;
  options.server.limits.validity = std::chrono::seconds(30);
  TestBroker broker(options);
  broker.Take("held");
  TestSession session(broker.locks());
  session.Open();
  for (uint64_t id = 100; id < 5000; id += 50) {
    for (uint64_t i = 0; i < 50; ++i) session.Acquire(id + i, "held", /*one_try=*/true);
    ASSERT_TRUE(session.Send());
  }
  broker.server().Stop(std::chrono::milliseconds(50));
}

TEST(SlowReader, ManyAnswersComeInBoundedMessages) {
  TestOptions options;
  options.server.limits.max_metadata_bytes = 8192;
  TestBroker broker(options);
  v1::AcquireRequest request;
  request.mutable_lock()->set_key("held");
  (*request.mutable_lock()->mutable_metadata())["m"] = std::string(8000, 'x');
  v1::AcquireResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.locks().Acquire(&context, request, &response).ok());

  TestSession session(broker.locks());
  session.Open();
  constexpr uint64_t kTries = 1500;
  for (uint64_t i = 0; i < kTries; ++i) session.Acquire(10 + i, "held", /*one_try=*/true);
  session.Send();
  for (uint64_t refused = 0; refused < kTries;) {
    const v1::Event event = session.Next();
    ASSERT_NE(event.event_case(), v1::Event::EVENT_NOT_SET);
    refused += event.has_refused();
  }
  EXPECT_LT(session.largest_message(), size_t{1} << 20);
}

}  // namespace
}  // namespace distlock::rpc
