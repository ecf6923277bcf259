// SPDX-License-Identifier: Apache-2.0
#include "core/lock_name.h"

#include <compare>
#include <random>
#include <string>
#include <tuple>

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
  for (const char* bad :
       {"", "/", "a", "a/", "/k", "a/%", "a/%2", "a/%zz", "a/%2-", "a/%:5", "a/%41", "a/{", "a/k%2f", "a\n/k"}) {
    EXPECT_FALSE(LockName::FromEscaped(bad)) << bad;
  }
}

TEST(LockName, ThatStartsWithAPrefixStartsWithItsEscapedForm) {
  for (const auto& [ns, prefix, rest] :
       {std::tuple("a/b", "{x}/", "y%"), std::tuple("d", "", "k"), std::tuple("d", "10%", "\n")}) {
    const auto name = LockName::Encode(ns, std::string(prefix) + rest);
    EXPECT_EQ(name.escaped(), EscapeNamespace(ns) + "/" + EscapeKey(prefix) + EscapeKey(rest));
    EXPECT_FALSE(name.empty());
  }
  EXPECT_TRUE(LockName().empty());
}

TEST(LockName, IsOrderedAsItIsWritten) {
  const auto a = LockName::Encode("d", "a"), b = LockName::Encode("d", "b");
  EXPECT_LT(a, b);
  EXPECT_GT(b, a);
  EXPECT_EQ(a <=> LockName::Encode("d", "a"), std::strong_ordering::equal);
  EXPECT_LT(LockName(), a);
}

}  // namespace
}  // namespace distlock::core
