// SPDX-License-Identifier: Apache-2.0
//
// A program that links the library and googleapis. protobuf ends a program at its start when two of its files register
// the same message; so that these tests run at all shows that the library registers none of google.rpc.
#include <google/protobuf/descriptor.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <string>

#include "distlock/client.h"
#include "fake_broker.h"
#include "google_readings.h"

namespace distlock {
namespace {

using testing::FakeBroker;
using testing::ReadWithBoth;

// A google.rpc.Status with everything that a broker tells, written with the given messages.
template <class Status, class ErrorInfo, class RetryInfo, class BadRequest, class ResourceInfo, class Pack>
std::string EveryDetail(Pack pack) {
  Status status;
  status.set_code(grpc::StatusCode::ABORTED);
  status.set_message("held");
  ErrorInfo info;
  info.set_reason("LOCK_HELD");
  info.set_domain("distlock");
  auto& facts = *info.mutable_metadata();
  facts["holder_id"] = "0123456789abcdef";
  facts["fencing_token"] = "9007199254740991";
  facts["queue_length"] = "3";
  facts["block_time_left"] = "1.5s";
  pack(info, status.add_details());
  RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  pack(retry, status.add_details());
  BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field("lock.ttl");
  violation->set_description("is too long");
  pack(bad, status.add_details());
  ResourceInfo resource;
  resource.set_resource_type("lock");
  resource.set_resource_name("default/k");
  resource.set_owner("bob");
  resource.set_description("held by holder 0123456789abcdef");
  pack(resource, status.add_details());
  return status.SerializeAsString();
}

std::string WithOurMessages() {
  return EveryDetail<wire::RpcStatus, wire::ErrorInfo, wire::RetryInfo, wire::BadRequest, wire::ResourceInfo>(
      [](const auto& detail, google::protobuf::Any* any) { wire::PackDetail(detail, any); });
}

std::string WithGooglesMessages() {
  using namespace google::rpc;  // NOLINT: five messages of the same package
  return EveryDetail<google::rpc::Status, ErrorInfo, RetryInfo, BadRequest, ResourceInfo>(
      [](const auto& detail, google::protobuf::Any* any) { any->PackFrom(detail); });
}

// The end of a call that fails so.
grpc::Status AnswerOf(FakeBroker& broker) {
  const auto stub = v1::LockService::NewStub(grpc::CreateChannel(broker.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  v1::GetLockRequest request;
  request.set_key("k");
  v1::GetLockResponse response;
  return stub->GetLock(&context, request, &response);
}

TEST(Googleapis, IsOneOfTwoPackagesThatTheProgramKnows) {
  const google::protobuf::DescriptorPool& known = *google::protobuf::DescriptorPool::generated_pool();
  for (const char* name : {"google.rpc.Status", "google.rpc.ErrorInfo", "distlock.wire.RpcStatus",
                           "distlock.wire.ErrorInfo", "distlock.v1.SessionRequest"}) {
    EXPECT_NE(known.FindMessageTypeByName(name), nullptr) << name;
  }
}

TEST(Googleapis, ReadsABrokersStatusAsTheLibraryDoes) {
  for (const std::string& serialized : {WithOurMessages(), WithGooglesMessages()}) {
    FakeBroker broker(FakeBroker::Behaviour{.look_status = {grpc::StatusCode::ABORTED, "held", serialized}});
    const wire::StatusDetails details = ReadWithBoth(AnswerOf(broker).error_details());
    EXPECT_EQ(details.reason, "LOCK_HELD");
    EXPECT_EQ(details.holder_id, "0123456789abcdef");
    EXPECT_EQ(details.fencing_token, 9007199254740991);
    EXPECT_EQ(details.queue_length, 3);
    EXPECT_EQ(details.block_time_left, "1.5s");
    EXPECT_EQ(details.retry_delay, std::chrono::seconds(2));
    ASSERT_EQ(details.field_violations.size(), 1u);
    EXPECT_EQ(details.field_violations[0].first, "lock.ttl");
    EXPECT_EQ(details.field_violations[0].second, "is too long");
    EXPECT_EQ(details.owner, "bob");

    Client client({.address = broker.address()});
    const Result<std::optional<Leader>> look = client.MakeElection("k").Look();
    ASSERT_FALSE(look.ok());
    EXPECT_EQ(look.refusal().reason, RefusalReason::kLockHeld);
    EXPECT_EQ(look.refusal().retry_after, std::chrono::seconds(2));
    EXPECT_EQ(look.refusal().queue_length, 3);
    EXPECT_EQ(look.refusal().holders.at(0).owner, "bob");
    EXPECT_EQ(look.refusal().holders.at(0).fencing_token, 9007199254740991);
    ASSERT_TRUE(look.refusal().block);
    EXPECT_EQ(look.refusal().block->time_left, std::chrono::milliseconds(1500));
  }
}

TEST(Googleapis, TakesALockBesideIt) {
  FakeBroker broker;
  Client client({.address = broker.address()});
  Result<Guard> guard = client.MakeMutex("k").Lock();
  ASSERT_TRUE(guard.ok()) << guard.refusal().message;
  EXPECT_EQ(guard->Release(), ReleaseOutcome::kReleased);
}

}  // namespace
}  // namespace distlock
