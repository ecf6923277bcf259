// SPDX-License-Identifier: Apache-2.0
#include "web/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "contract/error_details.h"
#include "contract/refusal.h"

namespace distlock::web {
namespace {

using nlohmann::json;

std::string HeaderOf(const http::Reply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return "";
}

http::Reply ReplyTo(core::RefusalReason reason, core::Duration retry = {}) {
  return ErrorReply(contract::ErrorOf(contract::MakeRefusal(reason, "why", retry), {}));
}

TEST(Answers, EveryReasonHasOneRowAndItsCode) {
  const auto* values = v1::RefusalReason_descriptor();
  ASSERT_EQ(std::size(kReasonRows), static_cast<size_t>(values->value_count() - 1));
  for (const ReasonRow& row : kReasonRows) {
    v1::Refusal refusal;
    refusal.set_reason(row.reason);
    const http::Reply reply = ErrorReply(contract::ErrorOf(refusal, {}));
    EXPECT_EQ(reply.status, row.status) << v1::RefusalReason_Name(row.reason);
    EXPECT_EQ(HeaderOf(reply, "Retry-After"), row.retry ? "1" : "") << v1::RefusalReason_Name(row.reason);
    EXPECT_EQ(HeaderOf(reply, "WWW-Authenticate").empty(), row.status != 401);
  }
}

TEST(Answers, RetryAfterIsRoundedUp) {
  using std::chrono::milliseconds;
  EXPECT_EQ(HeaderOf(ReplyTo(core::RefusalReason::kLockHeld, milliseconds(1)), "Retry-After"), "1");
  EXPECT_EQ(HeaderOf(ReplyTo(core::RefusalReason::kLockHeld, milliseconds(2001)), "Retry-After"), "3");
  EXPECT_EQ(HeaderOf(ReplyTo(core::RefusalReason::kLockHeld, milliseconds(3000)), "Retry-After"), "3");
}

TEST(Answers, DetailsAreJsonAlsoWithHostileText) {
  v1::Refusal refusal = contract::MakeRefusal(core::RefusalReason::kLockHeld, "\"</script>\n\u2028");
  refusal.add_holders()->set_owner("\"\\\n<b>");
  wire::RpcStatus status = contract::ErrorOf(refusal, core::LockName::Encode("default", "k"));
  status.add_details()->PackFrom(refusal);
  status.add_details()->set_type_url("type.googleapis.com/of.somebody.Else");
  const http::Reply reply = ErrorReply(status);
  const json body = json::parse(reply.body);
  EXPECT_EQ(body["message"], "\"</script>\n\u2028");
  EXPECT_EQ(body["code"], 10);
  json by_type;
  for (const json& detail : body["details"]) by_type[detail["@type"].get<std::string>()] = detail;
  EXPECT_EQ(by_type.size(), 3U);  // none of the stranger
  EXPECT_EQ(by_type["type.googleapis.com/google.rpc.ErrorInfo"]["reason"], "LOCK_HELD");
  EXPECT_EQ(by_type["type.googleapis.com/google.rpc.ResourceInfo"]["resourceName"], "default:k");
  EXPECT_EQ(by_type["type.googleapis.com/distlock.v1.Refusal"]["holders"][0]["owner"], "\"\\\n<b>");
}

TEST(Answers, NothingIsSaidTwice) {
  v1::Refusal refusal =
      contract::MakeRefusal(core::RefusalReason::kLockHeld, "somebody has it", std::chrono::seconds(2));
  refusal.add_holders()->set_owner("me");
  wire::RpcStatus status = contract::ErrorOf(refusal, core::LockName::Encode("default", "k"));
  status.add_details()->PackFrom(refusal);
  const std::string body = ErrorReply(status).body;
  EXPECT_EQ(body.find("somebody has it"), body.rfind("somebody has it")) << body;
  EXPECT_EQ(body.find("\"2s\""), body.rfind("\"2s\"")) << body;
  EXPECT_EQ(body.find("queueLength"), std::string::npos) << body;
  refusal.set_message("another text");
  status.mutable_details()->rbegin()->PackFrom(refusal);
  EXPECT_NE(ErrorReply(status).body.find("another text"), std::string::npos);
}

TEST(Answers, WhatHasNoReasonGoesByItsCode) {
  wire::RpcStatus status;
  for (const auto& [code, http] : {std::pair{14, 503}, {1, 503}, {8, 429}, {12, 501}, {13, 500}, {2, 500}, {3, 400}}) {
    status.set_code(code);
    const http::Reply reply = ErrorReply(status);
    EXPECT_EQ(reply.status, http) << code;
    EXPECT_EQ(HeaderOf(reply, "Retry-After"), http == 503 || http == 429 ? "1" : "") << code;
  }
}

}  // namespace
}  // namespace distlock::web
