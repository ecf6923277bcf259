// SPDX-License-Identifier: Apache-2.0
#include "core/lock_name.h"

#include <random>

#include "gtest/gtest.h"

namespace distlock::core {
namespace {

TEST(LockName, EscapesWhatCouldHurtAndNothingElse) {
  EXPECT_EQ(LockName::Encode("default", "orders/42").escaped(), "default/orders/42");
  EXPECT_EQ(LockName::Encode("a/b", "}x{").escaped(), "a%2Fb/%7Dx%7B");
  EXPECT_EQ(LockName::Encode("d", "100%\n\x7f").escaped(), "d/100%25%0A%7F");
  EXPECT_EQ(LockName::Encode("d", "schl\xc3\xbcssel").escaped(), "d/schl\xc3\xbcssel");
}

TEST(LockName, RoundTripsAnyBytes) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string ns, key;
    for (size_t n = 1 + random() % 8; n > 0; --n) ns += static_cast<char>(random());
    for (size_t n = 1 + random() % 16; n > 0; --n) key += static_cast<char>(random());
    const LockName name = LockName::Encode(ns, key);
    EXPECT_EQ(name.Decode(), std::make_pair(ns, key));
    const auto again = LockName::FromEscaped(name.escaped());
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, name);
    EXPECT_EQ(name.escaped().find_first_of("{}\n"), std::string::npos);
  }
}

TEST(LockName, RefusesWhatEncodeCannotHaveMade) {
  for (const char* bad : {"", "/", "a", "a/", "/k", "a/%", "a/%2", "a/%zz", "a/%41", "a/{", "a/k%2f", "a\n/k"}) {
    EXPECT_FALSE(LockName::FromEscaped(bad)) << bad;
  }
}

}  // namespace
}  // namespace distlock::core
