// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "distlock/wire/status_details.h"
#include "distlock/wire/times.h"
#include "unary_call.h"

namespace distlock::internal {
namespace {

template <class Detail>
void Add(wire::RpcStatus& status, const Detail& detail) {
  wire::PackDetail(detail, status.add_details());
}

grpc::Status Pack(grpc::StatusCode code, const wire::RpcStatus& details) {
  return {code, "the broker's words", details.SerializeAsString()};
}

wire::RpcStatus WithReason(const char* reason) {
  wire::RpcStatus status;
  wire::ErrorInfo info;
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
  wire::RpcStatus status = WithReason("INVALID_ARGUMENT");
  wire::BadRequest bad;
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
  wire::RpcStatus status = WithReason("LOCK_HELD");
  wire::ResourceInfo resource;
  resource.set_resource_name("default/k");
  resource.set_owner("bob");
  Add(status, resource);
  wire::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  Add(status, retry);
  const Refusal refusal = ToRefusal(Pack(grpc::StatusCode::ABORTED, status));
  EXPECT_EQ(refusal.reason, RefusalReason::kLockHeld);
  EXPECT_EQ(refusal.message, "the broker's words");
  EXPECT_EQ(refusal.retry_after, std::chrono::seconds(2));
  EXPECT_EQ(refusal.queue_length, 3);
  ASSERT_EQ(refusal.holders.size(), 1u);
  EXPECT_EQ(refusal.holders[0].owner, "bob");
  EXPECT_EQ(refusal.holders[0].holder_id, "0123456789abcdef");
  EXPECT_EQ(refusal.holders[0].fencing_token, 42);
  EXPECT_FALSE(refusal.block);
}

TEST(ToRefusal, ABlockIsNoHolder) {
  wire::RpcStatus status;
  wire::ErrorInfo info;
  info.set_reason("LOCK_HELD");
  info.set_domain("distlock");
  auto& time_left = (*info.mutable_metadata())["block_time_left"];
  const std::pair<const char*, Duration> kTexts[] = {{"1.5s", std::chrono::milliseconds(1500)},
                                                     {"0s", Duration(0)},
                                                     {"-1s", Duration(0)},
                                                     {"inf", std::chrono::seconds(wire::kMostSeconds)},
                                                     {"soon", Duration(0)}};
  for (const auto& [text, expected] : kTexts) {
    time_left = text;
    status.clear_details();
    Add(status, info);
    const Refusal refusal = ToRefusal(Pack(grpc::StatusCode::ABORTED, status));
    EXPECT_TRUE(refusal.holders.empty()) << text;
    ASSERT_TRUE(refusal.block) << text;
    EXPECT_EQ(refusal.block->time_left, expected) << text;
  }
}

TEST(ToRefusal, OfASessionTellsTheBlockBesideTheHolders) {
  v1::Refusal wire;
  wire.set_reason(v1::REFUSAL_REASON_LOCK_HELD);
  v1::Holder* holder = wire.add_holders();
  holder->set_owner("bob");
  holder->set_permits(2);
  holder->mutable_acquire_time()->set_seconds(5);
  EXPECT_FALSE(ToRefusal(wire).block);
  wire.mutable_block()->mutable_start_time()->set_seconds(7);
  wire.mutable_block()->mutable_time_left()->set_seconds(3);
  wire.mutable_block()->set_owner("ann");
  const Refusal refusal = ToRefusal(wire);
  ASSERT_EQ(refusal.holders.size(), 1u);
  EXPECT_EQ(refusal.holders[0].owner, "bob");
  EXPECT_EQ(refusal.holders[0].permits, 2);
  EXPECT_EQ(refusal.holders[0].acquire_time.time_since_epoch(), std::chrono::seconds(5));
  ASSERT_TRUE(refusal.block);
  EXPECT_EQ(refusal.block->owner, "ann");
  EXPECT_EQ(refusal.block->start_time.time_since_epoch(), std::chrono::seconds(7));
  EXPECT_EQ(refusal.block->time_left, std::chrono::seconds(3));
}

TEST(ToQueued, TellsTheBlock) {
  v1::AcquireQueued wire;
  wire.set_position(4);
  EXPECT_FALSE(ToQueued(wire).block);
  wire.mutable_block()->set_owner("ann");
  wire.mutable_block()->mutable_time_left()->set_seconds(3);
  const QueuedInfo queued = ToQueued(wire);
  EXPECT_EQ(queued.position, 4);
  EXPECT_TRUE(queued.holders.empty());
  ASSERT_TRUE(queued.block);
  EXPECT_EQ(queued.block->owner, "ann");
  EXPECT_EQ(queued.block->time_left, std::chrono::seconds(3));
}

TEST(MakeSpec, ALockWithoutAnOwnerShowsItsProcess) {
  const std::string pid = ":" + std::to_string(::getpid());
  const auto owner_of = [](LockOptions options) { return MakeSpec("a", std::move(options))->wire.owner(); };
  EXPECT_THAT(owner_of({}), testing::AllOf(testing::HasSubstr("@"), testing::EndsWith(pid)));
  EXPECT_EQ(owner_of({.owner = "me"}), "me");
  EXPECT_EQ(owner_of({.reentrant = true}), "") << "a lock of one owner would be taken again by chance";
}

TEST(ToOutcome, OfANewerBrokerIsNotKnown) {
  EXPECT_EQ(ToOutcome(v1::RELEASE_OUTCOME_RELEASED), ReleaseOutcome::kReleased);
  EXPECT_EQ(ToOutcome(v1::RELEASE_OUTCOME_STILL_HELD), ReleaseOutcome::kStillHeld);
  EXPECT_EQ(ToOutcome(v1::RELEASE_OUTCOME_ALREADY_GONE), ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(ToOutcome(static_cast<v1::ReleaseOutcome>(99)), ReleaseOutcome::kUnknown);
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

// The caller of a call with one answer is told the code as it is, since nobody repeats the call.
TEST(AnswerRefusal, OfAStatusThatIsNotTheBrokers) {
  const Lookups::Connection from{.address = "host:1"};
  const std::pair<grpc::StatusCode, RefusalReason> kExpected[] = {
      {grpc::StatusCode::UNAVAILABLE, RefusalReason::kUnreachable},
      {grpc::StatusCode::CANCELLED, RefusalReason::kUnreachable},
      {grpc::StatusCode::DEADLINE_EXCEEDED, RefusalReason::kUnreachable},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, RefusalReason::kQuotaExceeded},
      {grpc::StatusCode::UNIMPLEMENTED, RefusalReason::kNotSupported},
      {grpc::StatusCode::INVALID_ARGUMENT, RefusalReason::kInvalidArgument},
      {grpc::StatusCode::UNAUTHENTICATED, RefusalReason::kUnauthenticated},
      {grpc::StatusCode::PERMISSION_DENIED, RefusalReason::kPermissionDenied},
      {grpc::StatusCode::DATA_LOSS, RefusalReason::kInternal},
  };
  for (const auto& [code, reason] : kExpected) {
    EXPECT_EQ(AnswerRefusal(grpc::Status(code, ""), from).reason, reason) << code;
    EXPECT_EQ(AnswerRefusal(grpc::Status(code, "", "\xff"), from).reason, reason)
        << "with details that nobody can read";
  }
  EXPECT_EQ(AnswerRefusal({grpc::StatusCode::UNAVAILABLE, "reset"}, from).message, "the broker at host:1: reset");
  EXPECT_EQ(AnswerRefusal(Pack(grpc::StatusCode::ABORTED, WithReason("LOCK_HELD")), from).reason,
            RefusalReason::kLockHeld);
  EXPECT_EQ(AnswerRefusal(Pack(grpc::StatusCode::ABORTED, WithReason("OF_A_NEWER_BROKER")), from).reason,
            RefusalReason::kInternal);
}

TEST(NotUtf8, NamesEachWrongField) {
  v1::AcquireRequest request;
  request.set_request_id("\xff");
  request.add_locks()->set_key("good");
  request.add_locks()->set_owner("\xc3");
  const std::optional<Refusal> refusal = NotUtf8(request);
  ASSERT_TRUE(refusal);
  ASSERT_EQ(refusal->field_problems.size(), 2u);
  EXPECT_EQ(refusal->field_problems[0].field, "locks[1].owner");
  EXPECT_EQ(refusal->field_problems[1].field, "request_id");
  request.set_request_id("");
  request.mutable_locks()->RemoveLast();
  EXPECT_FALSE(NotUtf8(request));
}

}  // namespace
}  // namespace distlock::internal
