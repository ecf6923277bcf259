// SPDX-License-Identifier: Apache-2.0
//
// Names of peers, and the share that one peer may have.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <string>

#include "peer/names.h"
#include "peer/shares.h"

namespace distlock::peer {
namespace {

sockaddr_storage V4(const char* text, uint16_t port) {
  sockaddr_storage at{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(at);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, text, &v4.sin_addr), 1);
  return at;
}

TEST(Names, AnAddressCountsWithoutItsPort) {
  EXPECT_EQ(AddressText(V4("127.0.0.2", 77)), "ipv4:127.0.0.2:77");
  EXPECT_EQ(PeerText(V4("127.0.0.2", 77)), PeerText(V4("127.0.0.2", 78)));
  EXPECT_NE(PeerText(V4("127.0.0.2", 77)), PeerText(V4("127.0.0.1", 77)));
  sockaddr_storage unix_socket{};
  unix_socket.ss_family = AF_UNIX;
  EXPECT_EQ(AddressText(unix_socket), "");
  EXPECT_EQ(PeerText(unix_socket), "");
}

TEST(Names, UsersOfAUnixSocketAreToldApartWhereTheKernelDoes) {
  EXPECT_EQ(PeerText(uid_t{4242}), "unix:uid=4242");
  EXPECT_EQ(PeerText(kOverflowUid), "unix:uid=unknown");
}

TEST(Shares, WhatOneHasIsNotTakenFromAnother) {
  Shares shares(2);
  EXPECT_TRUE(shares.Enter("a"));
  EXPECT_TRUE(shares.Enter("a"));
  EXPECT_FALSE(shares.Enter("a"));
  EXPECT_TRUE(shares.Enter("b"));
  EXPECT_EQ(shares.Of("a"), 2U);
  shares.Leave("b");
  EXPECT_FALSE(shares.Enter("a")) << "another has left";
  shares.Leave("a");
  EXPECT_TRUE(shares.Enter("a"));
}

TEST(Shares, WhoHasNoneIsForgotten) {
  Shares shares(1);
  for (int i = 0; i < 100; ++i) {
    const std::string peer = std::to_string(i);
    EXPECT_TRUE(shares.Enter(peer));
    EXPECT_FALSE(shares.Enter(peer));
    shares.Leave(peer);
    shares.Leave(peer);
  }
  EXPECT_EQ(shares.known(), 0U);
  EXPECT_FALSE(Shares(0).Enter("a"));
  EXPECT_EQ(Shares(0).known(), 0U);
}

}  // namespace
}  // namespace distlock::peer
