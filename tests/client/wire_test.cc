// SPDX-License-Identifier: Apache-2.0
//
// proto/cpp: UTF-8, times and status details as both sides of the contract read them.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "distlock/wire/names.h"
#include "distlock/wire/status_details.h"
#include "distlock/wire/times.h"
#include "distlock/wire/utf8.h"

namespace distlock::wire {
namespace {

TEST(Utf8, CharactersHaveOneToFourBytes) {
  const std::pair<const char*, size_t> kCharacters[] = {{"a", 1},
                                                        {"\xc3\xa4", 2},
                                                        {"\xe2\x82\xac", 3},
                                                        {"\xed\x9f\xbf", 3},
                                                        {"\xf0\x9f\x94\x92", 4},
                                                        {"\xf4\x8f\xbf\xbf", 4}};
  for (const auto& [text, length] : kCharacters) {
    EXPECT_EQ(CharacterLength(text), length) << text;
    EXPECT_TRUE(IsUtf8(std::string("x") + text + "y")) << text;
    EXPECT_EQ(IsUtf8(std::string_view(text, length - 1)), length == 1) << "cut short";
  }
  EXPECT_EQ(CharacterLength(""), 0u);
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8(std::string_view("\0", 1)));
}

TEST(Utf8, WhatIsNoCharacter) {
  // A continuation byte alone, overlong forms, a surrogate, a code point above U+10FFFF, and bytes that UTF-8 never
  // uses.
  for (const char* text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(CharacterLength(text), 0u) << text;
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(Times, ComeBackAsTheyWere) {
  for (const int64_t ns : {int64_t{0}, int64_t{1}, int64_t{1'500'000'000}, int64_t{86'400'000'000'000}}) {
    EXPECT_EQ(FromProto(ToProto(std::chrono::nanoseconds(ns))).count(), ns);
  }
}

TEST(Times, OfAPeerThatSendsNonsenseAreBounded) {
  google::protobuf::Duration duration;
  duration.set_seconds(-1);
  EXPECT_EQ(FromProto(duration).count(), 0);
  duration.set_seconds(std::numeric_limits<int64_t>::max());
  duration.set_nanos(std::numeric_limits<int32_t>::max());
  EXPECT_EQ(FromProto(duration).count(), kMostSeconds * 1'000'000'000 + kMostNanos);
  google::protobuf::Timestamp time;
  time.set_seconds(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(FromProto(time), std::chrono::system_clock::time_point());
}

TEST(Names, AreThoseOfTheContractWithoutThePrefix) {
  EXPECT_EQ(NameOf(v1::REFUSAL_REASON_LOCK_HELD), "LOCK_HELD");
  EXPECT_EQ(NameOf(v1::LOST_REASON_TAKEN), "TAKEN");
  EXPECT_EQ(NameOf(static_cast<v1::RefusalReason>(99)), "");
  for (int i = v1::RefusalReason_MIN; i <= v1::RefusalReason_MAX; ++i) {
    const auto reason = static_cast<v1::RefusalReason>(i);
    EXPECT_EQ(RefusalReasonOf(NameOf(reason)), reason);
  }
  EXPECT_EQ(RefusalReasonOf("OF_A_NEWER_BROKER"), std::nullopt);
  EXPECT_EQ(RefusalReasonOf(""), std::nullopt);
}

TEST(StatusDetailsTest, ThatCannotBeReadAreNoBrokers) {
  for (const char* text : {"", "\xff\xff"}) {
    const StatusDetails details = ReadStatusDetails(text);
    EXPECT_TRUE(details.reason.empty());
    EXPECT_FALSE(details.retry_delay);
  }
}

}  // namespace
}  // namespace distlock::wire
