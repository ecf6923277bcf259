// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

class Holding {
 public:
  // Waits in the queue under this request_id.
  Holding(TestBroker& broker, const std::string& key, const std::string& request_id, int32_t generation) {
    request_.mutable_lock()->set_key(key);
    request_.set_request_id(request_id);
    request_.set_generation(generation);
    stream_ = broker.locks().Hold(&context_, request_);
  }
  Holding(TestBroker& broker, const std::string& key, bool one_try = false,
          v1::OnDisconnect on_disconnect = v1::ON_DISCONNECT_SAFE) {
    request_.mutable_lock()->set_key(key);
    request_.mutable_lock()->set_on_disconnect(on_disconnect);
    if (one_try) request_.mutable_lock()->mutable_max_wait();
    stream_ = broker.locks().Hold(&context_, request_);
  }
  v1::HoldResponse Next() {
    v1::HoldResponse response;
    stream_->Read(&response);
    return response;
  }
  v1::HoldResponse NextOf(v1::HoldResponse::EventCase kind) {
    v1::HoldResponse response = Next();
    while (response.event_case() != kind && response.event_case() != v1::HoldResponse::EVENT_NOT_SET) response = Next();
    return response;
  }
  grpc::Status Finish() { return stream_->Finish(); }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  v1::HoldRequest request_;
  std::unique_ptr<grpc::ClientReader<v1::HoldResponse>> stream_;
};

TEST(Hold, GrantsRenewsAndEndsWithReleased) {
  TestOptions options;
  options.server.limits.validity = std::chrono::milliseconds(300);
  TestBroker broker(options);
  Holding hold(broker, "a");
  const v1::HoldResponse granted = hold.Next();
  ASSERT_TRUE(granted.has_granted());
  EXPECT_TRUE(hold.Next().has_renewed());
  EXPECT_TRUE(hold.Next().has_renewed());
  broker.Release(granted.granted().lease_id());
  const v1::HoldResponse last = hold.NextOf(v1::HoldResponse::kReleased);
  EXPECT_EQ(last.released().lease().fencing_token(), granted.granted().fencing_token());
  EXPECT_TRUE(hold.Finish().ok());
}

// The client counts from when it receives the message. So a broker that kept the lock only as long as promised would
// free it while a client that got the message late still believes.
TEST(Hold, PromisesLessThanItKeeps) {
  TestOptions options;
  options.server.limits.validity = std::chrono::milliseconds(1000);
  TestBroker broker(options);
  Holding hold(broker, "a");
  const v1::HoldResponse granted = hold.Next();
  const v1::HoldResponse renewed = hold.Next();
  for (const auto& valid_for : {granted.granted().valid_for(), renewed.renewed().valid_for()}) {
    EXPECT_EQ(valid_for.seconds(), 0);
    EXPECT_GT(valid_for.nanos(), 0);
    EXPECT_LE(valid_for.nanos(), 900'000'000);
  }
}

TEST(Hold, WaitsThenGetsWhatIsReleased) {
  TestBroker broker;
  const v1::Grant first = broker.Take("a");
  Holding hold(broker, "a");
  const v1::HoldResponse queued = hold.Next();
  ASSERT_TRUE(queued.has_queued());
  EXPECT_EQ(queued.queued().holders(0).owner(), "taker");
  broker.Release(first.lease_id());
  const v1::HoldResponse granted = hold.Next();
  ASSERT_TRUE(granted.has_granted());
  EXPECT_GT(granted.granted().fencing_token(), first.fencing_token());
  hold.Cancel();
  EXPECT_EQ(hold.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST(Hold, OneTryRefusedIsTheStatus) {
  TestBroker broker;
  broker.Take("a");
  Holding hold(broker, "a", /*one_try=*/true);
  EXPECT_EQ(hold.Next().event_case(), v1::HoldResponse::EVENT_NOT_SET);
  const grpc::Status status = hold.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Details(status).reason, "LOCK_HELD");
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions == 0; }));
}

TEST(Hold, InvalidIsTheStatus) {
  TestBroker broker;
  Holding hold(broker, "");
  hold.Next();
  EXPECT_EQ(Details(hold.Finish()).reason, "INVALID_ARGUMENT");
}

TEST(Hold, CancelFreesTheLock) {
  TestBroker broker;
  Holding hold(broker, "a", false, v1::ON_DISCONNECT_RELEASE);
  ASSERT_TRUE(hold.Next().has_granted());
  hold.Cancel();
  hold.Finish();
  EXPECT_TRUE(broker.Await(
      [](const core::BrokerStats& stats) { return stats.sessions + stats.leases + stats.pending_releases == 0; }));
  EXPECT_FALSE(broker.IsHeld("a"));
}

TEST(Hold, MaxHoldEndsWithLeaseLost) {
  TestBroker broker;
  grpc::ClientContext context;
  v1::HoldRequest request;
  request.mutable_lock()->set_key("a");
  request.mutable_lock()->mutable_max_hold()->set_nanos(50'000'000);
  auto stream = broker.locks().Hold(&context, request);
  v1::HoldResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(response.has_granted());
  while (!response.has_lost()) ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.lost().reason(), v1::LOST_REASON_MAX_HOLD);
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(Details(status).reason, "LEASE_LOST");
  EXPECT_EQ(Details(status).facts.at("lost_reason"), "MAX_HOLD");
}

TEST(Hold, StopEndsItWithDraining) {
  TestBroker broker;
  Holding hold(broker, "a");
  ASSERT_TRUE(hold.Next().has_granted());
  broker.server().Stop(std::chrono::seconds(5));
  hold.NextOf(v1::HoldResponse::EVENT_NOT_SET);
  const grpc::Status status = hold.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Details(status).reason, "DRAINING");
}

TEST(Hold, DrainSendsDrainingThenLost) {
  TestBroker broker;
  Holding hold(broker, "a");
  ASSERT_TRUE(hold.Next().has_granted());
  broker.server().Drain();
  broker.shards().Drain(std::chrono::milliseconds(50), [] {});
  EXPECT_TRUE(hold.NextOf(v1::HoldResponse::kDraining).has_draining());
  const v1::HoldResponse lost = hold.NextOf(v1::HoldResponse::kLost);
  EXPECT_EQ(lost.lost().reason(), v1::LOST_REASON_DRAINED);
  EXPECT_EQ(Details(hold.Finish()).facts["lost_reason"], "DRAINED");
}

constexpr char kRequest[] = "one request of a client";

TEST(Hold, APlaceOutlivesItsStreamUnderItsRequestId) {
  TestBroker broker;
  const v1::Grant taken = broker.Take("a");
  Holding first(broker, "a", kRequest, 0);
  ASSERT_EQ(first.Next().queued().position(), 0);
  Holding second(broker, "a");
  ASSERT_EQ(second.Next().queued().position(), 1);
  first.Cancel();
  first.Finish();
  ASSERT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions == 1; }));
  Holding again(broker, "a", kRequest, 1);
  const v1::HoldResponse queued = again.Next();
  ASSERT_TRUE(queued.has_queued());
  EXPECT_EQ(queued.queued().position(), 0) << "its place was given up with the stream";
  broker.Release(taken.lease_id());
  EXPECT_TRUE(again.Next().has_granted());
}

TEST(Hold, ARepeatTakesThePlaceOfAStreamThatLives) {
  TestBroker broker;
  broker.Take("a");
  Holding first(broker, "a", kRequest, 0);
  ASSERT_TRUE(first.Next().has_queued());
  Holding again(broker, "a", kRequest, 1);
  ASSERT_EQ(again.Next().queued().position(), 0);
  first.NextOf(v1::HoldResponse::EVENT_NOT_SET);
  EXPECT_EQ(Details(first.Finish()).reason, "CANCELLED");
}

TEST(Hold, ARepeatWaitsForTheGrantOfTheStreamBefore) {
  TestBroker broker;
  Holding first(broker, "a", kRequest, 0);
  const v1::HoldResponse granted = first.Next();
  ASSERT_TRUE(granted.has_granted());
  Holding again(broker, "a", kRequest, 1);
  ASSERT_TRUE(again.Next().has_queued()) << "two streams hold one lock";
  broker.Release(granted.granted().lease_id());
  EXPECT_GT(again.NextOf(v1::HoldResponse::kGranted).granted().fencing_token(), granted.granted().fencing_token());
}

TEST(Hold, ARequestIdIsChecked) {
  TestBroker broker;
  Holding little(broker, "a", "short", 0);
  little.Next();
  EXPECT_EQ(Details(little.Finish()).reason, "INVALID_ARGUMENT");
  Holding less(broker, "a", kRequest, -1);
  less.Next();
  EXPECT_EQ(Details(less.Finish()).reason, "INVALID_ARGUMENT");
}

TEST(Hold, StreamsArePerPeerLimited) {
  TestOptions options;
  options.server.limits.max_sessions_per_peer = 2;
  TestBroker broker(options);
  Holding one(broker, "a");
  Holding two(broker, "b");
  ASSERT_TRUE(one.Next().has_granted());
  ASSERT_TRUE(two.Next().has_granted());
  {
    Holding three(broker, "c");
    three.Next();
    const grpc::Status status = three.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Details(status).reason, "QUOTA_EXCEEDED");
    EXPECT_THAT(status.error_message(), testing::HasSubstr("limit max-sessions-per-peer"));
  }
  one.Cancel();
  one.NextOf(v1::HoldResponse::EVENT_NOT_SET);
  one.Finish();
  // The stream stops counting when gRPC is done with it, a little after the core is.
  ASSERT_TRUE(broker.Await([&](const core::BrokerStats&) { return broker.server().Status().sessions() == 1; }));
  Holding again(broker, "c");
  EXPECT_TRUE(again.Next().has_granted());
}

}  // namespace
}  // namespace distlock::rpc
