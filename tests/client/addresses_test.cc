// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace distlock::internal {
namespace {

using Strings = std::vector<std::string>;

TEST(Addresses, AListIsSplitAndEachIsATarget) {
  EXPECT_EQ(SplitAddresses("a:1"), Strings{"a:1"});
  EXPECT_EQ(SplitAddresses("unix:///x.sock, b:7420,/y.sock,,b:7420"),
            (Strings{"unix:///x.sock", "b:7420", "unix:///y.sock"}));
  EXPECT_EQ(SplitAddresses(","), Strings{","}) << "never empty";
}

TEST(Addresses, TheOrderDiffersBetweenClients) {
  std::set<std::string> first;
  for (uint32_t seed = 1; seed <= 1000; ++seed) first.insert(Addresses("a,b,c", seed * 4'000'000).at(0));
  EXPECT_EQ(first, (std::set<std::string>{"a", "b", "c"}));
}

TEST(Addresses, EachIsTriedOnceBeforeAPause) {
  Addresses addresses("a,b,c");
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(addresses.Next());
    EXPECT_TRUE(addresses.Next());
    EXPECT_FALSE(addresses.Next()) << "all three have failed";
    EXPECT_EQ(addresses.present(), 0u);
  }
}

TEST(Addresses, ASuccessBeginsAnew) {
  Addresses addresses("a,b");
  EXPECT_TRUE(addresses.Next());
  addresses.Succeed();
  EXPECT_TRUE(addresses.Next());
  EXPECT_FALSE(addresses.Next());
}

TEST(Addresses, OneAddressIsNeverTriedAgainAtOnce) {
  Addresses addresses("a");
  EXPECT_FALSE(addresses.Next());
  addresses.Succeed();
  EXPECT_FALSE(addresses.Next());
}

}  // namespace
}  // namespace distlock::internal
