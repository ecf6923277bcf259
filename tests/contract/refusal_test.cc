// SPDX-License-Identifier: Apache-2.0
#include "contract/refusal.h"

#include <gmock/gmock.h>

#include <map>

#include "absl/status/status.h"
#include "contract/details.h"
#include "contract/error_details.h"
#include "contract/holder.h"
#include "contract/ids.h"

namespace distlock::contract {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const core::LockName kName = core::LockName::Encode("ns", "key");

struct Row {
  core::RefusalReason reason;
  const char* name;
  absl::StatusCode code;
  const char* says;
};

TEST(Refusals, EachReasonHasItsCodeAndNextStep) {
  using core::RefusalReason;
  const std::vector<Row> table = {
      {RefusalReason::kLockHeld, "LOCK_HELD", absl::StatusCode::kAborted, "retry later, or set max_wait"},
      {RefusalReason::kWaitTimeout, "WAIT_TIMEOUT", absl::StatusCode::kAborted, "not granted; wait longer"},
      {RefusalReason::kLeaseLost, "LEASE_LOST", absl::StatusCode::kAborted, "was lost"},
      {RefusalReason::kNotHolder, "NOT_HOLDER", absl::StatusCode::kFailedPrecondition, "acquire again"},
      {RefusalReason::kForeignKey, "FOREIGN_KEY", absl::StatusCode::kFailedPrecondition, "--key-prefix"},
      {RefusalReason::kQuotaExceeded, "QUOTA_EXCEEDED", absl::StatusCode::kResourceExhausted, "the cause"},
      {RefusalReason::kStoreFull, "STORE_FULL", absl::StatusCode::kResourceExhausted, "maxmemory"},
      {RefusalReason::kStoreUnavailable, "STORE_UNAVAILABLE", absl::StatusCode::kUnavailable,
       "retry. An acquire refused so holds nothing"},
      {RefusalReason::kStoreHoldOff, "STORE_HOLD_OFF", absl::StatusCode::kUnavailable, "hold-off"},
      {RefusalReason::kQuorumNotReached, "QUORUM_NOT_REACHED", absl::StatusCode::kUnavailable, "retry later"},
      {RefusalReason::kDraining, "DRAINING", absl::StatusCode::kUnavailable, "ask another one"},
      {RefusalReason::kUnauthenticated, "UNAUTHENTICATED", absl::StatusCode::kUnauthenticated, "the cause"},
      {RefusalReason::kPermissionDenied, "PERMISSION_DENIED", absl::StatusCode::kPermissionDenied, "the cause"},
  };
  for (const Row& row : table) {
    const core::Refused refused{.reason = row.reason, .cause = "the cause", .holders = {}};
    const wire::RpcStatus status = ErrorOf(RefusalOf(refused, kName), kName);
    EXPECT_EQ(static_cast<absl::StatusCode>(status.code()), row.code) << row.name;
    const Details details(status);
    EXPECT_EQ(details.reason, row.name);
    EXPECT_THAT(status.message(), HasSubstr(row.says));
    EXPECT_EQ(details.resource.resource_name(), "ns:key");
    EXPECT_EQ(details.retry.has_retry_delay(), row.code == absl::StatusCode::kUnavailable) << row.name;
  }
}

TEST(Refusals, NameTheHolderAndWhenToRetry) {
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld,
                              .retry_after = std::chrono::seconds(2),
                              .holders = {Holder("job-7", /*detached=*/true)},
                              .queue_length = 3};
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_EQ(refusal.message(), "lock \"ns:key\" is held by \"job-7\" (holder " + HolderIdOf({7}) +
                                   "), 3 waiters in the queue; retry later, or set max_wait to wait in the queue");
  EXPECT_EQ(refusal.retry_after().seconds(), 2);
  const Details details(ErrorOf(refusal, kName));
  EXPECT_EQ(details.facts.at("queue_length"), "3");
  EXPECT_EQ(details.facts.at("fencing_token"), "5");
  EXPECT_EQ(details.resource.owner(), "job-7");
}

TEST(Refusals, SayNotWhenToRetryWhereAHolderIsRenewed) {
  core::Refused refused{.reason = core::RefusalReason::kLockHeld,
                        .retry_after = std::chrono::seconds(2),
                        .holders = {Holder("job-7", /*detached=*/true), Holder("job-8")}};
  EXPECT_FALSE(RefusalOf(refused, kName).has_retry_after());
  core::HolderView blocked = Holder("gone");
  blocked.owner = {};
  refused.holders = {blocked};
  EXPECT_EQ(RefusalOf(refused, kName).retry_after().seconds(), 2) << "a lock_delay ends by itself";
}

TEST(Refusals, NameOneOfManyHoldersAndShowAll) {
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {Holder("job-7"), Holder("job-8")}};
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_THAT(refusal.message(), testing::HasSubstr("and 1 more"));
  EXPECT_EQ(refusal.holders_size(), 2);
}

TEST(Refusals, OfAMinHoldSayWhoRanAndWhenTheNextMay) {
  core::HolderView blocked = Holder("root@a");
  blocked.owner = {};
  blocked.min_hold = std::chrono::minutes(15);
  blocked.held_for = std::chrono::seconds(175);
  blocked.time_left = std::chrono::minutes(12);
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {blocked}};
  const core::Refused waited{.reason = core::RefusalReason::kWaitTimeout, .holders = {blocked}};
  const std::string ran = "ran 3 min ago by root@a, next in 12 min";
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_THAT(refusal.message(), testing::HasSubstr("\" " + ran + "; retry later"));
  EXPECT_EQ(refusal.block().min_hold().seconds(), 900);
  EXPECT_EQ(Details(ErrorOf(refusal, kName)).resource.owner(), "root@a");
  EXPECT_THAT(RefusalOf(waited, kName).message(), testing::HasSubstr(": " + ran));
  blocked.info = "";
  blocked.held_for = std::chrono::hours(24);
  blocked.time_left = std::chrono::seconds(29);
  const core::Refused later{.reason = core::RefusalReason::kLockHeld, .holders = {blocked}};
  EXPECT_THAT(RefusalOf(later, kName).message(), testing::HasSubstr("ran 24 h ago, next in 29 s"));
}

TEST(Refusals, AWaitThatRanOutSaysWhomToAsk) {
  core::HolderView blocked = Holder("gone");
  blocked.owner = {};
  const auto message = [](core::HolderList holders) {
    return RefusalOf({.reason = core::RefusalReason::kWaitTimeout, .holders = std::move(holders)}, kName).message();
  };
  EXPECT_THAT(message({}), testing::EndsWith("not granted; wait longer")) << "nobody is known to hold it";
  EXPECT_THAT(message({blocked}), testing::EndsWith("wait longer, or end the block: distlockctl force-release"));
  EXPECT_THAT(message({blocked, Holder("job-7")}), testing::EndsWith("wait longer, or ask its holder"));
}

TEST(Refusals, ABlockedShareIsNotTheOneThatIsNamed) {
  core::HolderView blocked = Holder("gone");
  blocked.owner = {};
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {blocked, Holder("job-7")}};
  const v1::Refusal refusal = RefusalOf(refused, kName);
  EXPECT_THAT(refusal.message(), testing::HasSubstr("held by \"job-7\""));
  ASSERT_EQ(refusal.holders_size(), 1);
  EXPECT_EQ(refusal.holders(0).owner(), "job-7");
  EXPECT_EQ(refusal.block().owner(), "gone");
  EXPECT_EQ(Details(ErrorOf(refusal, kName)).facts.at("block_time_left"), "2.500s");
}

TEST(Refusals, HostileTextStaysOneShortLine) {
  const auto name = core::LockName::Encode("ns", std::string(500, '\n'));
  const core::Refused refused{.reason = core::RefusalReason::kLockHeld, .holders = {Holder(std::string(250, '\x07'))}};
  const std::string message = RefusalOf(refused, name).message();
  EXPECT_EQ(message.find('\n'), message.npos);
  EXPECT_EQ(message.find('\x07'), message.npos);
  EXPECT_LT(message.size(), 1024u);
}

// The size that a client counts against its limit, 8 KiB by default: the error in base64, the message percent-encoded.
size_t TrailerBytes(const wire::RpcStatus& error) {
  size_t bytes = (error.ByteSizeLong() + 2) / 3 * 4;
  for (const char c : error.message()) bytes += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  return bytes;
}

TEST(Refusals, DetailsFitIntoTrailers) {
  for (const std::string& text : {std::string("m"), std::string("%"), std::string("\xe2\x82\xac")}) {
    std::string wide;
    while (wide.size() < 20'000) wide += text;
    v1::Refusal refusal = MakeRefusal(core::RefusalReason::kInvalidArgument, wide, seconds(1));
    refusal.set_queue_length(2'000'000'000);
    for (int i = 0; i < 100; ++i) {
      refusal.add_field_problems()->set_field("acquire.locks[63].on_disconnect");
      refusal.mutable_field_problems(i)->set_description(wide);
    }
    v1::Holder& holder = *refusal.add_holders();
    holder.set_owner(wide);
    holder.set_holder_id("0123456789abcdef");
    holder.set_fencing_token(int64_t{1} << 52);
    const auto name = core::LockName::Encode(std::string(1024, 'n'), wide.substr(0, 4095));
    const wire::RpcStatus error = ErrorOf(refusal, name);
    EXPECT_LT(TrailerBytes(error), 6656u) << text;
    const Details details(error);
    EXPECT_EQ(details.reason, "INVALID_ARGUMENT");
    EXPECT_GT(details.fields.size(), 1u);
    EXPECT_THAT(details.resource.resource_name(), testing::StartsWith("nnn"));
    EXPECT_LT(TrailerBytes(LostError({.name = name, .reason = core::LostReason::kForced, .cause = wide})), 6656u);
  }
}

TEST(Refusals, NamesWithinTheDefaultLimitsAreShownWhole) {
  const auto name = core::LockName::Encode(std::string(64, 'n'), std::string(512, 'k'));
  const Details details(ErrorOf(MakeRefusal(core::RefusalReason::kLockHeld, "held"), name));
  EXPECT_EQ(details.resource.resource_name(), std::string(64, 'n') + ":" + std::string(512, 'k'));
}

TEST(Refusals, LostLeasesSayWhy) {
  using core::LostReason;
  for (const auto& [reason, name] : std::map<LostReason, std::string>{{LostReason::kExpired, "EXPIRED"},
                                                                      {LostReason::kTaken, "TAKEN"},
                                                                      {LostReason::kForced, "FORCED"},
                                                                      {LostReason::kMaxHold, "MAX_HOLD"},
                                                                      {LostReason::kDrained, "DRAINED"},
                                                                      {LostReason::kMoved, "MOVED"}}) {
    const wire::RpcStatus status = LostError({.name = kName, .reason = reason});
    EXPECT_EQ(static_cast<absl::StatusCode>(status.code()), absl::StatusCode::kAborted);
    EXPECT_EQ(Details(status).reason, "LEASE_LOST");
    EXPECT_EQ(Details(status).facts.at("lost_reason"), name);
    EXPECT_THAT(status.message(), HasSubstr("ns:key"));
  }
}

}  // namespace
}  // namespace distlock::contract
