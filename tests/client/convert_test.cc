// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace distlock::internal {
namespace {

template <class Detail>
void Add(google::rpc::Status& status, const Detail& detail) {
  status.add_details()->PackFrom(detail);
}

grpc::Status Pack(grpc::StatusCode code, const google::rpc::Status& details) {
  return {code, "the broker's words", details.SerializeAsString()};
}

google::rpc::Status WithReason(const char* reason) {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("distlock");
  if (reason == std::string("LOCK_HELD")) {
    (*info.mutable_metadata())["queue_length"] = "3";
    (*info.mutable_metadata())["holder_id"] = "0123456789abcdef";
    (*info.mutable_metadata())["fencing_token"] = "42";
  }
  Add(status, info);
  return status;
}

TEST(ToRefusal, KeepsTheFieldsThatWereWrong) {
  google::rpc::Status status = WithReason("INVALID_ARGUMENT");
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field("key");
  violation->set_description("is empty");
  Add(status, bad);
  const Refusal refusal = ToRefusal(Pack(grpc::StatusCode::INVALID_ARGUMENT, status));
  EXPECT_EQ(refusal.reason, RefusalReason::kInvalidArgument);
  ASSERT_EQ(refusal.field_problems.size(), 1u);
  EXPECT_EQ(refusal.field_problems[0].field, "key");
  EXPECT_EQ(refusal.field_problems[0].description, "is empty");
}

TEST(ToRefusal, KeepsWhoHoldsTheLock) {
  google::rpc::Status status = WithReason("LOCK_HELD");
  google::rpc::ResourceInfo resource;
  resource.set_resource_name("default/k");
  resource.set_owner("bob");
  Add(status, resource);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  Add(status, retry);
  const Refusal refusal = ToRefusal(Pack(grpc::StatusCode::ABORTED, status));
  EXPECT_EQ(refusal.reason, RefusalReason::kLockHeld);
  EXPECT_EQ(refusal.message, "the broker's words");
  EXPECT_EQ(refusal.retry_after, std::chrono::seconds(2));
  EXPECT_EQ(refusal.queue_length, 3u);
  ASSERT_EQ(refusal.holders.size(), 1u);
  EXPECT_EQ(refusal.holders[0].owner, "bob");
  EXPECT_EQ(refusal.holders[0].holder_id, "0123456789abcdef");
  EXPECT_EQ(refusal.holders[0].fencing_token, 42u);
  EXPECT_FALSE(refusal.holders[0].blocked);
}

// Without the broker's details, only codes about who is let in may be permanent.
TEST(ToRefusal, OfAStatusThatIsNotTheBrokers) {
  const auto reason_of = [](grpc::StatusCode code) { return ToRefusal(grpc::Status(code, "")).reason; };
  EXPECT_EQ(reason_of(grpc::StatusCode::UNIMPLEMENTED), RefusalReason::kUnreachable);
  EXPECT_EQ(reason_of(grpc::StatusCode::INVALID_ARGUMENT), RefusalReason::kUnreachable);
  EXPECT_EQ(reason_of(grpc::StatusCode::UNAVAILABLE), RefusalReason::kUnreachable);
  EXPECT_EQ(reason_of(grpc::StatusCode::UNAUTHENTICATED), RefusalReason::kUnauthenticated);
  EXPECT_EQ(reason_of(grpc::StatusCode::PERMISSION_DENIED), RefusalReason::kPermissionDenied);
  EXPECT_EQ(ToRefusal(Pack(grpc::StatusCode::UNIMPLEMENTED, WithReason("NOT_SUPPORTED"))).reason,
            RefusalReason::kNotSupported);
}

}  // namespace
}  // namespace distlock::internal
