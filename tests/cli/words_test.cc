// SPDX-License-Identifier: Apache-2.0
//
// The pure parts of distlockctl: durations, JSON, and how a gRPC status becomes a message and an exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "distlock/wire/status_details.h"
#include "duration.h"
#include "failure.h"
#include "flag_words.h"
#include "json.h"
#include "printable.h"

namespace distlock::cli {
namespace {

using testing::Eq;
using testing::HasSubstr;

TEST(Duration, AsPeopleWriteThem) {
  EXPECT_THAT(ParseDuration("15s"), Eq(Millis(15000)));
  EXPECT_THAT(ParseDuration("500ms"), Eq(Millis(500)));
  EXPECT_THAT(ParseDuration("1m30s"), Eq(Millis(90000)));
  EXPECT_THAT(ParseDuration("2.5"), Eq(Millis(2500)));
  EXPECT_THAT(ParseDuration("0"), Eq(Millis(0)));
  EXPECT_THAT(ParseDuration("1us"), Eq(Millis(1))) << "not 0, which means one try";
}

TEST(Duration, RefusesOtherText) {
  for (const char* text : {"", " ", "-1", "-5s", "soon", "15 s", "1.2.3", "inf", "10000h", "5x", "."}) {
    EXPECT_THAT(ParseDuration(text), Eq(std::nullopt)) << text;
  }
}

TEST(Duration, ThroughTheWire) {
  EXPECT_EQ(FromProto(ToProto(Millis(90'061'001))), Millis(90'061'001));
  EXPECT_EQ(FormatDuration(Millis(14980)), "14.98s");
  EXPECT_EQ(FormatTime({}), "");
}

TEST(JsonLine, EscapesControlCharactersAndQuotes) {
  EXPECT_EQ(Json().Text("a\"b", "x\ny\\\x01").Line(), R"({"a\"b":"x\ny\\\u0001"})");
  EXPECT_EQ(Json().Text("k", "schl\xc3\xbcssel").Line(), "{\"k\":\"schl\xc3\xbcssel\"}");
}

TEST(JsonLine, IsUtf8ForAnyInput) {
  const std::string good = "\u00e9\u20ac\U0001f512\U0010ffff";
  EXPECT_EQ(QuoteJson(good), '"' + good + '"');
  for (const std::string bad : {"\xe9", "\xc3", "\xe2\x82", "\xff", "\x80"}) {
    const std::string quoted = QuoteJson("a" + bad);
    EXPECT_EQ(quoted.substr(0, 5), "\"a\xef\xbf\xbd") << testing::PrintToString(bad);
  }
  EXPECT_EQ(QuoteJson("\xe9z"), "\"\xef\xbf\xbdz\"");
  EXPECT_EQ(QuoteJson("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"") << "half of a pair";
}

TEST(JsonLine, KeepsTheOrder) {
  EXPECT_EQ(Json().Number("z", -1).Flag("a", true).Null("n").Texts("t", {"x", "y"}).List("l", {}).Line(),
            R"({"z":-1,"a":true,"n":null,"t":["x","y"],"l":[]})");
}

grpc::Status WithReason(grpc::StatusCode code, const std::string& reason) {
  wire::RpcStatus details;
  wire::ErrorInfo info;
  info.set_domain("distlock");
  info.set_reason(reason);
  wire::PackDetail(info, details.add_details());
  wire::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(12);
  wire::PackDetail(retry, details.add_details());
  wire::ResourceInfo resource;
  resource.set_owner("bob");
  wire::PackDetail(resource, details.add_details());
  return grpc::Status(code, "the broker's words", details.SerializeAsString());
}

TEST(FailureOf, EachReasonHasItsExitCode) {
  const std::pair<const char*, int> kExpected[] = {
      {"LOCK_HELD", 1},       {"WAIT_TIMEOUT", 1},     {"LEASE_LOST", 75},        {"NOT_HOLDER", 75},
      {"LIMIT_MISMATCH", 64}, {"FOREIGN_KEY", 69},     {"INVALID_ARGUMENT", 64},  {"NOT_SUPPORTED", 64},
      {"QUOTA_EXCEEDED", 69}, {"STORE_FULL", 69},      {"STORE_UNAVAILABLE", 69}, {"QUORUM_NOT_REACHED", 69},
      {"DRAINING", 69},       {"UNAUTHENTICATED", 77}, {"PERMISSION_DENIED", 77}, {"SOMETHING_NEWER", 70},
  };
  for (const auto& [reason, exit_code] : kExpected) {
    const Failure failure = FailureFrom(WithReason(grpc::StatusCode::ABORTED, reason));
    EXPECT_EQ(failure.exit_code, exit_code) << reason;
    EXPECT_TRUE(failure.from_broker);
  }
}

TEST(FailureOf, DetailsBecomePartOfTheMessage) {
  const Failure failure = FailureFrom(WithReason(grpc::StatusCode::ABORTED, "LOCK_HELD"));
  EXPECT_EQ(DescribeText(failure), "distlockctl: the broker's words (LOCK_HELD; held by bob, retry after 12s)\n");
  EXPECT_EQ(DescribeJson(failure),
            R"({"error":{"reason":"LOCK_HELD","message":"the broker's words","exit_code":1,"holder":"bob",)"
            "\"retry_after_ms\":12000}}\n");
}

TEST(FailureOf, AStatusWithoutBrokerDetails) {
  EXPECT_EQ(FailureFrom(grpc::Status(grpc::StatusCode::UNAVAILABLE, "reset")).exit_code, kExitUnavailable);
  EXPECT_EQ(FailureFrom(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "proxy")).exit_code, kExitDenied);
  EXPECT_EQ(FailureFrom(grpc::Status(grpc::StatusCode::DATA_LOSS, "?")).exit_code, kExitInternal);
  const Failure garbled = FailureFrom(grpc::Status(grpc::StatusCode::UNAVAILABLE, "reset", "\xff\xff"));
  EXPECT_FALSE(garbled.from_broker);
  EXPECT_THAT(DescribeText(garbled), HasSubstr("reset (UNAVAILABLE)"));
}

TEST(FlagWords, NameFlagsInsteadOfFields) {
  const std::pair<const char*, const char*> kExpected[] = {
      {"k is held; retry later, or set max_wait to wait in the queue",
       "k is held; retry later, or give -w to wait in the queue"},
      {"k was not free within max_wait (waited 1s): held by \"a\"",
       "k was not free within the wait (waited 1s): held by \"a\""},
      {"and a request_id keeps its mode", "and a --request-id keeps its mode"},
      {"default/max_wait is held by \"max_wait\"", "default/max_wait is held by \"max_wait\""},
      {"the key and its limit", "the key and its limit"},
      {"", ""},
  };
  for (const auto& [broker, people] : kExpected) {
    Failure failure;
    failure.message = broker;
    SpeakOfFlags(failure);
    EXPECT_EQ(failure.message, people);
  }
}

TEST(Width, CountsColumns) {
  EXPECT_EQ(DisplayWidth(""), 0U);
  EXPECT_EQ(DisplayWidth("plain"), 5U);
  EXPECT_EQ(DisplayWidth("\u0431\u044d\u043a"), 3U);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1U) << "a combining accent";
  EXPECT_EQ(DisplayWidth("\u5099"), 2U);
  EXPECT_EQ(DisplayWidth("\xff\xe9"), 2U) << "not UTF-8";
  EXPECT_EQ(Column("\u5099", 4), "\u5099  ");
  EXPECT_EQ(Column("long", 2), "long");
}

TEST(Printable, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(Printable("a\x1b[m\u009b\u202e\u2066\u200b\ufeff\U000e0041"),
            "a?[m?<U+202E><U+2066><U+200B><U+FEFF><U+E0041>");
  EXPECT_EQ(Printable("\u00e9\u20ac\U0001f512"), "\u00e9\u20ac\U0001f512");
  EXPECT_EQ(Printable("a\xff\xc3"), "a??");
}

}  // namespace
}  // namespace distlock::cli
