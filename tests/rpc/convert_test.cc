// SPDX-License-Identifier: Apache-2.0
#include "rpc/convert.h"

#include <gmock/gmock.h>

#include "rpc/ids.h"
#include "rpc/lease_id.h"
#include "rpc/refusal.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const core::LockName kName = core::LockName::Encode("ns", "key");

core::HolderView Holder(const std::string& owner) {
  v1::Holder facts;
  facts.set_owner(owner);
  return {.owner = {7},
          .token = 5,
          .since = {1'000'000},
          .ttl = seconds(15),
          .time_left = milliseconds(2500),
          .info = facts.SerializeAsString()};
}

TEST(Convert, Durations) {
  EXPECT_EQ(ToProto(milliseconds(1500)).seconds(), 1);
  EXPECT_EQ(ToProto(milliseconds(1500)).nanos(), 500'000'000);
  EXPECT_EQ(ToProto(core::Duration(-1)).nanos(), -1);
  EXPECT_EQ(ToProto(core::StoreTime{1'795'233'428'398'271}).nanos(), 398'271'000);
  EXPECT_EQ(Show(core::Duration(1'499'600'000)), "1.5s");
}

TEST(Convert, ABlockedLockHasNoHolder) {
  core::HolderView view = Holder("gone");
  view.owner = {};
  const v1::Holder holder = HolderOf(view);
  EXPECT_TRUE(holder.blocked());
  EXPECT_EQ(holder.holder_id(), "");
  EXPECT_EQ(holder.time_left().nanos(), 500'000'000);
}

TEST(Convert, MaxHoldOfADetachedLeaseIsInItsId) {
  const core::Granted granted{.name = kName, .owner = {7}, .token = 5, .since = {1'000'000}, .ttl = seconds(15)};
  EXPECT_EQ(DecodeLeaseId(GrantOf(granted, seconds(60)).lease_id())->hold_until.us, 61'000'000);
  EXPECT_EQ(DecodeLeaseId(GrantOf(granted, {}).lease_id())->hold_until.us, 0);
}

TEST(Convert, NamesFromTheStoreNeedNotBeUtf8) {
  store::LockView view{.name = core::LockName::Encode("n", "k\xff"), .waiters = {}};
  view.waiters.push_back({.owner = {9}, .broker_id = "b", .info = "\xff\xff"});
  const v1::Lock lock = LockOf(view);
  EXPECT_EQ(lock.key(), "k?");
  v1::Lock read;
  EXPECT_TRUE(read.ParseFromString(lock.SerializeAsString()));
  EXPECT_EQ(read.waiters(0).waiter_id(), HolderIdOf({9}));
}

struct Row {
  core::RefusalReason reason;
  const char* name;
  grpc::StatusCode code;
  const char* says;
};

TEST(Refusals, EachReasonHasItsCodeAndNextStep) {
  using core::RefusalReason;
  const std::vector<Row> table = {
      {RefusalReason::kLockHeld, "LOCK_HELD", grpc::StatusCode::ABORTED, "retry later, or set max_wait"},
      {RefusalReason::kWaitTimeout, "WAIT_TIMEOUT", grpc::StatusCode::ABORTED, "wait longer, or ask its holder"},
      {RefusalReason::kLeaseLost, "LEASE_LOST", grpc::StatusCode::ABORTED, "was lost"},
      {RefusalReason::kNotHolder, "NOT_HOLDER", grpc::StatusCode::FAILED_PRECONDITION, "acquire again"},
      {RefusalReason::kForeignKey, "FOREIGN_KEY", grpc::StatusCode::FAILED_PRECONDITION, "--key-prefix"},
      {RefusalReason::kQuotaExceeded, "QUOTA_EXCEEDED", grpc::StatusCode::RESOURCE_EXHAUSTED, "the cause"},
      {RefusalReason::kStoreFull, "STORE_FULL", grpc::StatusCode::RESOURCE_EXHAUSTED, "maxmemory"},
      {RefusalReason::kStoreUnavailable, "STORE_UNAVAILABLE", grpc::StatusCode::UNAVAILABLE,
       "retry. An acquire refused so holds nothing"},
      {RefusalReason::kQuorumNotReached, "QUORUM_NOT_REACHED", grpc::StatusCode::UNAVAILABLE, "retry later"},
      {RefusalReason::kDraining, "DRAINING", grpc::StatusCode::UNAVAILABLE, "ask another one"},
      {RefusalReason::kUnauthenticated, "UNAUTHENTICATED", grpc::StatusCode::UNAUTHENTICATED, "the cause"},
      {RefusalReason::kPermissionDenied, "PERMISSION_DENIED", grpc::StatusCode::PERMISSION_DENIED, "the cause"},
  };
  for (const Row& row : table) {
    const core::Refused refused{.reason = row.reason, .cause = "the cause", .holders = {}};
    const grpc::Status status = StatusOf(RefusalOf(refused, kName), kName);
    EXPECT_EQ(status.error_code(), row.code) << row.name;
    const Details details(status);
    EXPECT_EQ(details.reason, row.name);
    EXPECT_THAT(status.error_message(), HasSubstr(row.says));
    EXPECT_EQ(details.resource.resource_name(), "ns/key");
    EXPECT_EQ(details.retry.has_retry_delay(), row.code == grpc::StatusCode::UNAVAILABLE) << row.name;
  }
}

TEST(Refusals, NameTheHolderAndWhenToRetry) {
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld,
                              .retry_after = std::chrono::seconds(2),
                              .holders = {Holder("job-7")},
                              .queue_length = 3};
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_EQ(refusal.message(), "lock \"ns/key\" is held by \"job-7\" (holder " + HolderIdOf({7}) +
                                   "), 3 waiters in the queue; retry later, or set max_wait to wait in the queue");
  EXPECT_EQ(refusal.retry_after().seconds(), 2);
  const Details details(StatusOf(refusal, kName));
  EXPECT_EQ(details.facts.at("queue_length"), "3");
  EXPECT_EQ(details.facts.at("fencing_token"), "5");
  EXPECT_EQ(details.resource.owner(), "job-7");
}

TEST(Refusals, NameOneOfManyHoldersAndShowAll) {
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {Holder("job-7"), Holder("job-8")}};
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_THAT(refusal.message(), testing::HasSubstr("and 1 more"));
  EXPECT_EQ(refusal.holders_size(), 2);
}

TEST(Refusals, ABlockedShareIsNotTheOneThatIsNamed) {
  core::HolderView blocked = Holder("gone");
  blocked.owner = {};
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {blocked, Holder("job-7")}};
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_THAT(refusal.message(), testing::HasSubstr("held by \"job-7\""));
  EXPECT_EQ(Details(StatusOf(refusal, kName)).facts.count("blocked"), 0u);
  EXPECT_EQ(refusal.holders_size(), 2);
}

TEST(Refusals, HostileTextStaysOneShortLine) {
  const auto name = core::LockName::Encode("ns", std::string(500, '\n'));
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {Holder(std::string(250, '\x07'))}};
  const std::string message = RefusalOf(refused, name).message();
  EXPECT_EQ(message.find('\n'), message.npos);
  EXPECT_EQ(message.find('\x07'), message.npos);
  EXPECT_LT(message.size(), 1024u);
}

TEST(Refusals, DetailsFitIntoTrailers) {
  v1::Refusal refusal = MakeRefusal(core::RefusalReason::kInvalidArgument, std::string(20'000, 'm'));
  for (int i = 0; i < 100; ++i) {
    refusal.add_field_problems()->set_field("lock.ttl");
    refusal.mutable_field_problems(i)->set_description(std::string(100, 'd'));
  }
  EXPECT_LT(StatusOf(refusal, core::LockName::Encode("ns", std::string(512, 'k'))).error_details().size(), 5000u);
}

TEST(Refusals, LostLeasesSayWhy) {
  using core::LostReason;
  for (const auto& [reason, name] : std::map<LostReason, std::string>{{LostReason::kExpired, "EXPIRED"},
                                                                      {LostReason::kTaken, "TAKEN"},
                                                                      {LostReason::kForced, "FORCED"},
                                                                      {LostReason::kMaxHold, "MAX_HOLD"},
                                                                      {LostReason::kDrained, "DRAINED"}}) {
    const grpc::Status status = LostStatus({.name = kName, .reason = reason});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
    EXPECT_EQ(Details(status).reason, "LEASE_LOST");
    EXPECT_EQ(Details(status).facts.at("lost_reason"), name);
    EXPECT_THAT(status.error_message(), HasSubstr("ns/key"));
  }
}

}  // namespace
}  // namespace distlock::rpc
