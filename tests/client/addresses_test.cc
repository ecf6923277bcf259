// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
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

TEST(Addresses, APortIsNeededAndFits) {
  const std::pair<const char*, const char*> wrong[] = {
      {"127.0.0.1", "has no port; write 127.0.0.1:7420"},
      {"tls://broker", "has no port; write tls://broker:7420"},
      {"dns:///broker", "has no port; write dns:///broker:7420"},
      {"broker:", "has no port; write broker:7420"},
      {"[::1]", "has no port; write [::1]:7420"},
      {"::1", "is IPv6 without brackets; write [::1]:7420"},
      {"127.0.0.1:72956", "has the port 72956; a port is a number of 1..65535"},
      {"tls://broker:0", "has the port 0; a port is a number of 1..65535"},
      {"broker:locks", "has the port locks; a port is a number of 1..65535"},
      {"tls://[::1]:65536", "has the port 65536; a port is a number of 1..65535"},
      {"ipv4:1.2.3.4", "has no port; write ipv4:1.2.3.4:7420"},
  };
  for (const auto& [address, problem] : wrong) {
    EXPECT_EQ(AddressProblem(address), std::string("the broker's address ") + address + " " + problem);
  }
  for (const char* const good :
       {"a:1", "[::1]:65535", "tls://[::1]:1", "dns://8.8.8.8/broker:7420", "dns:broker:7420", "unix:x", "unix:///x",
        "unix-abstract:x", "ipv4:1.2.3.4:1", "ipv6:[::1]:1", "xds:///a"}) {
    EXPECT_EQ(AddressProblem(good), "");
  }
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
