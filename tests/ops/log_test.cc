// SPDX-License-Identifier: Apache-2.0
#include "ops/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <thread>
#include <vector>

#include "ops/text.h"

namespace distlock::ops {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kSecond = 1'000'000'000;

std::string Line(LogFormat format, std::string_view event, LogFields fields) {
  return FormatLogLine(format, absl::FromUnixMillis(1700000000123), LogLevel::kWarn, event, fields);
}
std::string Text(LogFields fields) { return Line(LogFormat::kText, "lease lost", fields); }
std::string Json(LogFields fields) { return Line(LogFormat::kJson, "lease lost", fields); }

TEST(LogLine, TextHasTimeLevelEventAndFields) {
  EXPECT_EQ(
      Text({{"key", "jobs/1"}, {"token", uint64_t{18}}, {"shard", 2}, {"ok", true}, {"took", absl::Milliseconds(15)}}),
      "2023-11-14T22:13:20.123Z warn lease lost key=jobs/1 token=18 shard=2 ok=true took=15ms");
}

TEST(LogLine, JsonKeepsTypes) {
  EXPECT_EQ(Json({{"key", "jobs/1"}, {"n", -1}, {"ok", false}, {"took", absl::Milliseconds(1500)}, {"x", 0.5}}),
            "{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"event\":\"lease lost\",\"key\":\"jobs/1\","
            "\"n\":-1,\"ok\":false,\"took\":1.5,\"x\":0.5}");
  EXPECT_THAT(Json({{"d", absl::InfiniteDuration()}, {"f", std::numeric_limits<double>::infinity()}}),
              EndsWith("\"d\":\"inf\",\"f\":null}"));
}

TEST(LogLine, HostileValuesStayOneHarmlessField) {
  const std::string hostile = "a\n2023 error forged=1\x1b[2J\"\\ \xe2\x80\xae\xc2\x9b\x7f\xff";
  const std::string quoted = R"("a\n2023 error forged=1\u001b[2J\"\\ \u202e\u009b\u007f\ufffd")";
  EXPECT_THAT(Text({{"key", hostile}}), EndsWith(" key=" + quoted));
  EXPECT_THAT(Json({{"key", hostile}}), EndsWith(",\"key\":" + quoted + "}"));
}

TEST(LogLine, TextQuotesValuesThatAreNotPlainWords) {
  EXPECT_THAT(Text({{"k", ""}}), EndsWith("k=\"\""));
  EXPECT_THAT(Text({{"k", "a b"}}), EndsWith("k=\"a b\""));
  EXPECT_THAT(Text({{"k", "a=b"}}), EndsWith("k=\"a=b\""));
  EXPECT_THAT(Text({{"k", "\xc3\xa4"}}), EndsWith("k=\"\xc3\xa4\""));
}

TEST(LogLine, AnEventCannotBreakTheLine) { EXPECT_THAT(Line(LogFormat::kText, "a\nb", {}), EndsWith(" warn a\\nb")); }

TEST(JsonQuoted, BrokenUtf8BecomesReplacements) {
  EXPECT_EQ(JsonQuoted("\xc3"), R"("\ufffd")");
  EXPECT_EQ(JsonQuoted("\xc0\xaf"), R"("\ufffd\ufffd")");
  EXPECT_EQ(JsonQuoted("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");
  EXPECT_EQ(JsonQuoted("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");
  EXPECT_EQ(JsonQuoted("\xe0\x80\x80"), R"("\ufffd\ufffd\ufffd")");
  EXPECT_EQ(JsonQuoted("\xf0\x9f\x94\x92"), "\"\xf0\x9f\x94\x92\"");
  EXPECT_EQ(JsonQuoted(std::string_view("\0\t", 2)), R"("\u0000\u0009")");
}

TEST(Log, ShowsWholeLinesFromTheLevelUp) {
  ::testing::internal::CaptureStderr();
  ConfigureLog(LogLevel::kWarn, LogFormat::kJson);
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarn));
  Info("hidden", {{"key", "x"}});
  Error("shown", {{"key", "{} %s %v"}});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { Warn("from a thread", {{"key", std::string(1000, 'x')}}); });
  for (std::thread& thread : threads) thread.join();
  ConfigureLog(LogLevel::kInfo, LogFormat::kText);
  const std::string out = ::testing::internal::GetCapturedStderr();

  EXPECT_THAT(out, Not(HasSubstr("hidden")));
  EXPECT_THAT(out, HasSubstr("\"key\":\"{} %s %v\"}\n"));
  int count = 0;
  std::string line;
  for (std::istringstream lines(out); std::getline(lines, line); ++count) {
    EXPECT_THAT(line, StartsWith("{\"time\""));
    EXPECT_THAT(line, EndsWith("}"));
  }
  EXPECT_EQ(count, 5);
}

TEST(LogLimit, LetsOnePassPerIntervalAndCountsTheRest) {
  LogLimit limit(absl::Seconds(10));
  EXPECT_EQ(limit.Pass(0), 0u);
  EXPECT_EQ(limit.Pass(kSecond), std::nullopt);
  EXPECT_EQ(limit.Pass(9 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Pass(10 * kSecond), 2u);
  EXPECT_EQ(limit.Pass(11 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Pass(100 * kSecond), 1u);
}

TEST(LogLimit, ReportsTheRestAfterTheInterval) {
  LogLimit limit(absl::Seconds(10));
  EXPECT_EQ(limit.Rest(0), std::nullopt);
  EXPECT_EQ(limit.Pass(0), 0u);
  EXPECT_EQ(limit.Rest(10 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Pass(1 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Pass(2 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Rest(9 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Rest(10 * kSecond), 2u);
  EXPECT_EQ(limit.Rest(11 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Pass(12 * kSecond), 0u);
  EXPECT_EQ(limit.Pass(13 * kSecond), std::nullopt);
  EXPECT_EQ(limit.Rest(INT64_MAX), 1u);
}

TEST(LogLimit, PassesAtFirstByTheRealClock) {
  LogLimit limit(absl::Hours(1));
  EXPECT_EQ(limit.Pass(), 0u);
  EXPECT_EQ(limit.Pass(), std::nullopt);
}

}  // namespace
}  // namespace distlock::ops
