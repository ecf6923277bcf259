// SPDX-License-Identifier: Apache-2.0
#include "store/redis/wire_value.h"

#include <gtest/gtest.h>

#include <limits>

#include "store/redis/keys.h"
#include "store/wanted_by.h"

namespace distlock::store {
namespace {

TEST(WireValue, OwnerIdsGoToHexAndBack) {
  core::OwnerId owner{};
  for (size_t i = 0; i < owner.size(); ++i) owner[i] = static_cast<uint8_t>(i * 17 + 3);
  EXPECT_EQ(ParseOwner(HexOfOwner(owner)), owner);
  for (const std::string bad : {"", "00", "zz000000000000000000000000000000", "000000000000000000000000000000000"}) {
    EXPECT_FALSE(ParseOwner(bad)) << bad;
  }
}

TEST(WireValue, NumbersAreDigitsAndSaturate) {
  EXPECT_EQ(ParseNumber("0"), 0u);
  EXPECT_EQ(ParseNumber("9007199254740993"), 9007199254740993u);
  EXPECT_EQ(ParseNumber("99999999999999999999999"), std::numeric_limits<uint64_t>::max());
  for (const std::string bad : {"", "-1", "+1", " 1", "1e5", "0x1"}) EXPECT_FALSE(ParseNumber(bad)) << bad;
}

TEST(WireValue, MillisecondsAreRoundedUpAndNeverZero) {
  EXPECT_EQ(CeilMs(std::chrono::nanoseconds(1)), 1);
  EXPECT_EQ(CeilMs(std::chrono::nanoseconds(0)), 1);
  EXPECT_EQ(CeilMs(std::chrono::microseconds(1001)), 2);
  EXPECT_EQ(CeilMs(std::chrono::seconds(3)), 3000);
}

TEST(WireValue, HugeMillisecondsStillAdd) {
  const auto huge = FromMs(std::numeric_limits<uint64_t>::max());
  EXPECT_GT(huge + huge, huge);
}

TEST(WireValue, TimesEndWhereNanosecondsWould) {
  EXPECT_EQ(AsStoreTime(7).us, 7);
  const core::StoreTime last = AsStoreTime(std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(last.us, core::kMaxStoreTime.us);
  EXPECT_GT(std::chrono::duration_cast<core::Duration>(std::chrono::microseconds(last.us)), core::Duration::zero());
  const auto holder = ParseHolder("1;0102030405060708090a0b0c0d0e0f10;42;9999999999999999999;30000;0;", 1);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->since, last);
}

TEST(WireValue, HolderKeepsEveryByteOfInfo) {
  const auto holder = ParseHolder(std::string("1;0102030405060708090a0b0c0d0e0f10;42;7;30000;0;a;b\0c", 53), -2);
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->info, std::string("a;b\0c", 5));
  EXPECT_EQ(holder->time_left, core::Duration::zero());
  for (const std::string bad :
       {"", "1;", "2;0102030405060708090a0b0c0d0e0f10;42;7;30000;0;", "1;01;42;7;30000;0;",
        "1;0102030405060708090a0b0c0d0e0f10;42;7;30000;0", "1;0102030405060708090a0b0c0d0e0f10;x;7;30000;0;"}) {
    EXPECT_FALSE(ParseHolder(bad, 1)) << bad;
  }
}

TEST(WireValue, WhoTellsAHolderThatItsLockIsWantedIsNoPartOfItsInfo) {
  const std::string holds = "1;0102030405060708090a0b0c0d0e0f10;42;7;30000;0;";
  const std::string waits = "00000000000000b1;30000;0;x;7;";
  const auto expect = [&](const std::string& stored, uint64_t wanted_by, const std::string& info) {
    const auto holder = ParseHolder(holds + stored, 1);
    ASSERT_TRUE(holder);
    EXPECT_EQ(holder->wanted_by, wanted_by) << stored;
    EXPECT_EQ(holder->info, info) << stored;
    EXPECT_EQ(ParseWaiter({}, waits + stored).info, info) << stored;
  };
  expect("w00000000000000b2;in;fo", 0xb2, "in;fo");
  expect("wfedcba9876543210;", 0xfedcba9876543210, "");
  expect("h900;w00000000000000b2;i", 0xb2, "i");
  expect("m5;h900;p-7;00000000000000b1.12;w00000000000000b2;i", 0xb2, "p-7;00000000000000b1.12;i");
  expect("p7;00000000000000b1.12;i", 0, "p7;00000000000000b1.12;i");
  for (const std::string foreign : {"w", "w00000000000000b2", "w00000000000000b;x", "w00000000000000B2;x", "wxyz;i",
                                    "w00000000000000b22;i", "p7;w00000000000000b2", "iw00000000000000b2;"}) {
    expect(foreign, 0, foreign);
  }
}

TEST(WireValue, TheNumberOfABrokerIsItsId) {
  for (const std::string id : {"00000000000000b2", "fedcba9876543210", "0000000000000001"}) {
    const std::string stored = WithWantedBy(id, "i");
    std::string_view info = stored;
    EXPECT_EQ(BrokerIdOf(TakeWantedBy(info)), id);
    EXPECT_EQ(info, "i");
  }
}

TEST(Keys, PatternsEscapeWhatGlobsMean) {
  const Keys keys("d*l");
  EXPECT_EQ(keys.HolderPattern("a?b", "[x]\\"), "d\\*l:{a\\?b/\\[x\\]\\\\*}:h");
}

TEST(Keys, HolderKeysGoBackToNames) {
  const Keys keys("dl");
  const auto name = core::LockName::Encode("n/s", "k{}%:h\n");
  EXPECT_EQ(keys.NameOfHolder(keys.Holder(name)), name);
  for (const std::string bad : {"", "dl:{}:h", "dl:{a/}:h", "dl:{a/b}:q", "xx:{a/b}:h", "dl:{}h", "dl:{a/b{c}:h"}) {
    EXPECT_FALSE(keys.NameOfHolder(bad)) << bad;
  }
}

}  // namespace
}  // namespace distlock::store
