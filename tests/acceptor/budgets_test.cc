// SPDX-License-Identifier: Apache-2.0
//
// The acceptor's counts, without an acceptor: limits, descriptor numbers, peers, and what a connection's calls may
// cost.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>
#include <string>

#include "acceptor/byte_debt.h"
#include "acceptor/callers.h"
#include "acceptor/connection.h"
#include "acceptor/numbers.h"
#include "acceptor/peers.h"
#include "acceptor/rate_limit.h"

namespace distlock::acceptor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Clock::time_point kStart{seconds(1'000)};

TEST(RateLimit, SoManyAtOnceThenTheRate) {
  RateLimit limit(10, 20);
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += limit.Take(kStart);
  EXPECT_EQ(taken, 20);
  EXPECT_FALSE(limit.Take(kStart + milliseconds(99)));
  EXPECT_TRUE(limit.Take(kStart + milliseconds(101)));
  EXPECT_FALSE(limit.IsFull(kStart + seconds(2)));
  EXPECT_TRUE(limit.IsFull(kStart + seconds(3)));
}

TEST(ByteDebt, WhatIsSentBeyondTheRateIsOwed) {
  ByteDebt debt(1'000);
  EXPECT_EQ(debt.Look(kStart, 0, 500, 0), 500);
  EXPECT_EQ(debt.Look(kStart + milliseconds(100), 0, 900, 0), 800);
  EXPECT_EQ(debt.Look(kStart + milliseconds(300), 400, 900, 400), 200) << "what was used is not owed";
  EXPECT_EQ(debt.Look(kStart + seconds(10), 400, 900, 400), 0);
  EXPECT_EQ(debt.Look(kStart + seconds(10), 400, 1'400, 400), 500) << "nothing is paid in advance";
}

TEST(ByteDebt, AMessageThatIsCountedDuringTheLookIsNotOwedLater) {
  ByteDebt debt(1'000);
  EXPECT_EQ(debt.Look(kStart, 0, 0, 0), 0);
  // One message has come and is being counted; the next one has come by the next look.
  EXPECT_EQ(debt.Look(kStart + milliseconds(1), 0, 0, 50'000), 0);
  EXPECT_LE(debt.Look(kStart + milliseconds(2), 50'000, 100'000, 50'000), 50'000);
  EXPECT_EQ(debt.Look(kStart + milliseconds(3), 100'000, 100'000, 100'000), 0);
}

TEST(Numbers, ANumberRestsBeforeItIsGivenAgain) {
  Numbers numbers(500, 1 << 10);
  EXPECT_EQ(numbers.rest(), std::chrono::duration_cast<Clock::duration>(seconds(60)) / 64);
  const Fd any(open("/dev/null", O_RDONLY));
  std::set<int> seen;
  auto now = kStart;
  // All numbers, one after the other: each is closed at once, as after a short call.
  for (int i = 0; i < numbers.count(); ++i) {
    const int number = numbers.Take(any.get(), now);
    ASSERT_GE(number, 500);
    EXPECT_TRUE(seen.insert(number).second) << number;
    close(number);
    numbers.Rest(number, now);
  }
  EXPECT_EQ(numbers.Take(any.get(), now + numbers.rest() - milliseconds(1)), -1);
  EXPECT_EQ(errno, EMFILE);
  const int again = numbers.Take(any.get(), now + numbers.rest());
  EXPECT_EQ(seen.count(again), 1u);
  close(again);
}

TEST(Numbers, OneThatIsStillOpenIsNeverGiven) {
  Numbers numbers(600, 4);
  const Fd any(open("/dev/null", O_RDONLY));
  const int kept = numbers.Take(any.get(), kStart);
  numbers.Rest(kept, kStart);  // the connection has ended, but whoever was given it has not closed it
  for (int i = 0; i < 20; ++i) {
    const auto now = kStart + seconds(i + 1);
    const int number = numbers.Take(any.get(), now);
    ASSERT_GE(number, 0);
    EXPECT_NE(number, kept);
    close(number);
    numbers.Rest(number, now);
  }
  close(kept);
}

sockaddr_storage V6(const char* text, uint16_t port) {
  sockaddr_storage at{};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(at);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
  return at;
}

TEST(Peers, NamesOfAddresses) {
  EXPECT_EQ(AddressText(V6("2001:db8:1:2:3::9", 77)), "ipv6:[2001:db8:1:2:3::9]:77");
  EXPECT_EQ(PeerText(V6("2001:db8:1:2:3::9", 77)), PeerText(V6("2001:db8:1:2:ffff::1", 4)));
  EXPECT_NE(PeerText(V6("2001:db8:1:2::1", 1)), PeerText(V6("2001:db8:1:3::1", 1)));
  EXPECT_EQ(AddressText(V6("::ffff:10.1.2.3", 77)), "ipv4:10.1.2.3:77") << "IPv4 on a socket of both families";
  EXPECT_EQ(PeerText(V6("::ffff:10.1.2.3", 77)), "ipv4:10.1.2.3");
  EXPECT_EQ(CanonicalPeer("ipv6:%5B::1%5D:40000"), "ipv6:[::1]:40000");
  EXPECT_EQ(CanonicalPeer("ipv6:[fe80::1%252]:40000"), "ipv6:[fe80::1]:40000");
}

TEST(Peers, ConnectionsOfOneDoNotCountForAnother) {
  Peers peers({.connections = 2, .connections_per_second = 10, .handshakes_per_second = 1});
  EXPECT_FALSE(peers.Enter("a", kStart));
  EXPECT_FALSE(peers.Enter("a", kStart));
  EXPECT_EQ(peers.Enter("a", kStart), RefuseCause::kPeerConnections);
  EXPECT_FALSE(peers.Enter("b", kStart));
  peers.Leave("a", kStart);
  EXPECT_FALSE(peers.Enter("a", kStart));
}

TEST(Peers, HandshakesAreLimitedInAllAndForEach) {
  Peers peers({.connections = 100, .connections_per_second = 100, .handshakes_per_second = 1});
  RateLimit all(1, 3);
  EXPECT_TRUE(peers.MayPass("a", true, all, kStart));
  EXPECT_TRUE(peers.MayPass("a", true, all, kStart));
  EXPECT_FALSE(peers.MayPass("a", true, all, kStart)) << "its own share";
  EXPECT_TRUE(peers.MayPass("a", false, all, kStart)) << "without a handshake";
  EXPECT_TRUE(peers.MayPass("b", true, all, kStart));
  EXPECT_FALSE(peers.MayPass("c", true, all, kStart)) << "in all";
  EXPECT_TRUE(peers.MayPass("c", true, all, kStart + seconds(1)));
}

TEST(Peers, WhoIsCutAgainAndAgainStaysOutForAWhile) {
  Peers peers({});
  for (int i = 0; i < 3; ++i) {
    peers.Punish("a", kStart);
    EXPECT_FALSE(peers.Enter("a", kStart));
  }
  peers.Punish("a", kStart);
  EXPECT_EQ(peers.Enter("a", kStart), RefuseCause::kPenalty);
  EXPECT_FALSE(peers.Enter("b", kStart));
  EXPECT_FALSE(peers.Enter("a", kStart + seconds(11)));
}

TEST(Peers, AfterACutNewConnectionsOfItsPeerWait) {
  Peers peers({});
  RateLimit handshakes(100, 100);
  EXPECT_TRUE(peers.MayPass("a", false, handshakes, kStart));
  peers.Punish("a", kStart);
  EXPECT_FALSE(peers.MayPass("a", false, handshakes, kStart + milliseconds(1'900)));
  EXPECT_TRUE(peers.MayPass("b", false, handshakes, kStart));
  EXPECT_TRUE(peers.MayPass("a", false, handshakes, kStart + seconds(2)));
}

TEST(Peers, ManyThatCameAndWentAreForgotten) {
  Peers peers({});
  auto now = kStart;
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = "ipv4:" + std::to_string(i);
    EXPECT_FALSE(peers.Enter(name, now));
    peers.Leave(name, now);
    now += milliseconds(1);
  }
  EXPECT_LT(peers.known(), 30'000u);
}

// One end of a pair of sockets, seen as a connection.
struct Pair {
  explicit Pair(const CallBudget& budget, Counting* observer) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    other = Fd(ends[1]);
    connection = std::make_unique<Connection>(1, Kind::kUnix, "unix:uid=1,pid=2", "unix:uid=1", std::nullopt, ends[0],
                                              budget, observer);
  }
  Fd other;
  std::unique_ptr<Connection> connection;
};

TEST(ConnectionTest, TooManyOpenCallsCutOnce) {
  Counting observer;
  Pair pair({.open_calls = 3}, &observer);
  for (int i = 0; i < 3; ++i) pair.connection->OnCall(10);
  EXPECT_FALSE(IsClosed(pair.other));
  pair.connection->OnCallOver(false, kStart);
  pair.connection->OnCall(10);
  EXPECT_FALSE(IsClosed(pair.other));
  for (int i = 0; i < 9; ++i) pair.connection->OnCall(10);
  EXPECT_TRUE(IsClosed(pair.other));
  EXPECT_EQ(observer.cut(CutCause::kOpenCalls), 1);
}

TEST(ConnectionTest, CancelsAreEarlyOnlyBeforeTheFirstAnswer) {
  Counting observer;
  Pair pair({.early_cancels_per_second = 10, .early_cancels_at_once = 5}, &observer);
  for (int i = 0; i < 1'000; ++i) {
    pair.connection->OnCall(10);
    pair.connection->OnCallOver(false, kStart);
  }
  auto now = kStart;
  for (int i = 0; i < 100; ++i) pair.connection->OnCallOver(true, now += milliseconds(101));
  EXPECT_FALSE(pair.connection->was_cut()) << "at the rate";
  for (int i = 0; i < 6; ++i) pair.connection->OnCallOver(true, now);
  EXPECT_TRUE(pair.connection->was_cut());
  EXPECT_EQ(observer.cut(CutCause::kEarlyCancels), 1);
}

// When a client ends, all its calls that wait end as if it had cancelled them.
TEST(ConnectionTest, CallsThatEndWithTheirConnectionAreNoAbuse) {
  Counting observer;
  Pair pair({.early_cancels_per_second = 10, .early_cancels_at_once = 5}, &observer);
  pair.other.Reset();
  for (int i = 0; i < 100; ++i) pair.connection->OnCallOver(true, kStart);
  EXPECT_FALSE(pair.connection->was_cut());
  EXPECT_EQ(observer.cut(CutCause::kEarlyCancels), 0);
}

TEST(ConnectionTest, NothingIsCutAfterTheEnd) {
  Counting observer;
  Pair pair({}, &observer);
  pair.connection->Close();
  pair.connection->Cut(CutCause::kRevoked);
  EXPECT_EQ(observer.cut(CutCause::kRevoked), 0);
}

}  // namespace
}  // namespace distlock::acceptor
