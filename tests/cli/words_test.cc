// SPDX-License-Identifier: Apache-2.0
//
// The pure parts of distlockctl: durations, JSON, and how a refusal becomes a message and an exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "duration.h"
#include "failure.h"
#include "flag_words.h"
#include "json.h"
#include "printable.h"

namespace distlock::cli {
namespace {

using testing::Eq;

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

TEST(Duration, IsShownInWholeMilliseconds) {
  EXPECT_EQ(FormatDuration(Millis(14980)), "14.98s");
  EXPECT_EQ(FormatDuration(std::chrono::nanoseconds(14'980'999'999)), "14.98s");
  EXPECT_EQ(InMillis(std::chrono::microseconds(1999)), 1);
}

TEST(Time, IsEmptyWhenItIsNotKnown) {
  EXPECT_EQ(FormatTime({}), "");
  const std::chrono::system_clock::time_point epoch;
  EXPECT_EQ(FormatTime(epoch + std::chrono::seconds(1) + std::chrono::microseconds(1500)), "1970-01-01T00:00:01.001Z");
}

TEST(JsonLine, EscapesControlCharactersAndQuotes) {
  EXPECT_EQ(Line(Json{{"a\"b", "x\ny\\\x01"}}), R"({"a\"b":"x\ny\\\u0001"})");
  EXPECT_EQ(Line(Json{{"k", "schl\xc3\xbcssel"}}), "{\"k\":\"schl\xc3\xbcssel\"}");
}

TEST(JsonLine, IsUtf8ForAnyInput) {
  const std::string good = "\u00e9\u20ac\U0001f512\U0010ffff";
  EXPECT_EQ(Line(good), '"' + good + '"');
  for (const std::string bad : {"\xe9", "\xc3", "\xe2\x82", "\xff", "\x80"}) {
    EXPECT_EQ(Line("a" + bad), "\"a\xef\xbf\xbd\"") << testing::PrintToString(bad);
  }
  EXPECT_EQ(Line("\xe9z"), "\"\xef\xbf\xbdz\"");
  EXPECT_EQ(Line("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"") << "half of a pair";
}

TEST(JsonLine, KeepsTheOrder) {
  EXPECT_EQ(Line(Json{{"z", -1}, {"a", true}, {"n", nullptr}, {"t", {"x", "y", "z"}}, {"l", Json::array()}}),
            R"({"z":-1,"a":true,"n":null,"t":["x","y","z"],"l":[]})");
}

TEST(FailureOf, EachReasonHasItsExitCode) {
  const std::pair<RefusalReason, int> kExpected[] = {
      {RefusalReason::kLockHeld, 1},          {RefusalReason::kWaitTimeout, 1},
      {RefusalReason::kLeaseLost, 75},        {RefusalReason::kNotHolder, 75},
      {RefusalReason::kLimitMismatch, 1},     {RefusalReason::kForeignKey, 69},
      {RefusalReason::kInvalidArgument, 64},  {RefusalReason::kNotSupported, 69},
      {RefusalReason::kQuotaExceeded, 69},    {RefusalReason::kStoreFull, 69},
      {RefusalReason::kStoreUnavailable, 69}, {RefusalReason::kQuorumNotReached, 69},
      {RefusalReason::kDraining, 69},         {RefusalReason::kUnauthenticated, 77},
      {RefusalReason::kPermissionDenied, 77}, {RefusalReason::kUnreachable, 69},
      {RefusalReason::kInternal, 70},         {static_cast<RefusalReason>(99), 70},
  };
  for (const auto& [reason, exit_code] : kExpected) {
    EXPECT_EQ(FailureFrom(Refusal{.reason = reason}).exit_code, exit_code) << Name(reason);
  }
}

TEST(FailureOf, DetailsBecomePartOfTheMessage) {
  const Refusal held{.reason = RefusalReason::kLockHeld,
                     .message = "the broker's words",
                     .retry_after = std::chrono::seconds(12),
                     .holders = {{.owner = "bob"}}};
  const Failure failure = FailureFrom(held);
  EXPECT_EQ(DescribeText(failure), "distlockctl: the broker's words (LOCK_HELD; held by bob, retry after 12s)\n");
  EXPECT_EQ(DescribeJson(failure),
            R"({"error":{"reason":"LOCK_HELD","message":"the broker's words","exit_code":1,"holder":"bob",)"
            "\"retry_after_ms\":12000}}\n");
}

TEST(FailureOf, ABrokenConnectionIsNamedAsSuch) {
  const Failure failure = FailureFrom(Refusal{.reason = RefusalReason::kUnreachable, .message = "reset"});
  EXPECT_EQ(DescribeText(failure), "distlockctl: reset (UNAVAILABLE)\n");
}

TEST(FailureOf, EachWrongFieldIsKept) {
  const Failure failure = FailureFrom(
      Refusal{.reason = RefusalReason::kInvalidArgument, .field_problems = {{"locks[0].ttl", "too short"}}});
  EXPECT_EQ(DescribeText(failure), "distlockctl: locks[0].ttl too short\n");
}

TEST(FlagWords, NameFlagsInsteadOfFields) {
  const std::pair<const char*, const char*> kExpected[] = {
      {"k is held; retry later, or set max_wait to wait in the queue",
       "k is held; retry later, or set -w to wait in the queue"},
      {"k was not free within max_wait (waited 1s): held by \"a\"",
       "k was not free within -w (waited 1s): held by \"a\""},
      {"and a request_id keeps its mode", "and a --request-id keeps its mode"},
      {"default:max_wait is held by \"max_wait\"", "default:max_wait is held by \"max_wait\""},
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
