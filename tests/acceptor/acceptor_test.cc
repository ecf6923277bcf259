// SPDX-License-Identifier: Apache-2.0
#include "acceptor/acceptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "acceptor/callers.h"

namespace distlock::acceptor {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Lowers the limit of open files for a while.
class FewFiles {
 public:
  explicit FewFiles(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{most, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

AcceptorOptions On(const std::string& address) {
  AcceptorOptions options;
  options.listen = {address};
  return options;
}

TEST(AcceptorTest, ACallerOfAUnixSocketIsKnownByTheNumberThatGrpcIsGiven) {
  Folder folder;
  KeepingAcceptor acceptor(On("unix://" + (folder / "d.sock")));
  const Fd caller = Connect(acceptor->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  const auto connection = acceptor.connection();
  ASSERT_NE(connection, nullptr);
  ASSERT_TRUE(connection->who);
  EXPECT_EQ(connection->who->uid, getuid());
  EXPECT_EQ(connection->who->gid, getgid());
  EXPECT_EQ(connection->who->pid, getpid());
  EXPECT_EQ(connection->peer, "unix:uid=" + std::to_string(getuid()));
  std::vector<gid_t> groups(64);
  groups.resize(static_cast<size_t>(std::max(0, getgroups(64, groups.data()))));
  EXPECT_EQ(connection->who->groups, groups);
  EXPECT_EQ(acceptor->PeerOf("fd:1"), nullptr);
  EXPECT_EQ(acceptor->PeerOf("unknown"), nullptr);

  char bytes[64];
  EXPECT_EQ(recv(acceptor.fd(), bytes, sizeof(bytes), 0), static_cast<ssize_t>(kHttp2.size())) << "none was taken away";
  connection->Cut(CutCause::kRevoked);
  EXPECT_TRUE(Eventually([&] { return IsClosed(caller) && acceptor->connections() == 0; }));
  EXPECT_EQ(acceptor.observer().cut(CutCause::kRevoked), 1);
}

TEST(AcceptorTest, ACallerByTcpIsKnownByItsAddress) {
  KeepingAcceptor acceptor(On("127.0.0.1:0"));
  const Fd caller = Connect(acceptor->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  const auto connection = acceptor.connection();
  ASSERT_NE(connection, nullptr);
  EXPECT_EQ(connection->peer, "ipv4:127.0.0.1");
  EXPECT_FALSE(connection->who);
  acceptor.CloseAll();
  EXPECT_TRUE(Eventually([&] { return acceptor->connections() == 0 && IsClosed(caller); }));
  EXPECT_EQ(acceptor->PeerOf(connection->address), nullptr);
}

TEST(AcceptorTest, OnlyWhatBeginsLikeItsProtocolIsHandedOver) {
  for (const bool tls : {false, true}) {
    AcceptorOptions options = On("127.0.0.1:0");
    options.tls = tls;
    options.patience = milliseconds(300);
    KeepingAcceptor acceptor(std::move(options));
    const std::string address = acceptor->addresses()[0];
    const Fd http1 = Connect(address);
    const Fd silent = Connect(address);
    const Fd half = Connect(address);
    EXPECT_TRUE(Say(http1, "GET / HTTP/1.1\r\n\r\n"));
    EXPECT_TRUE(Say(half, tls ? "" : "PRI * HT"));
    EXPECT_TRUE(Eventually([&] { return IsClosed(http1) && IsClosed(silent) && IsClosed(half); }));
    EXPECT_TRUE(Eventually([&] { return acceptor.observer().refused(RefuseCause::kPreface) == 3; }));
    const Fd other = Connect(address);
    EXPECT_TRUE(Say(other, tls ? kHttp2 : "\x16\x03\x01"));
    EXPECT_TRUE(Eventually([&] { return IsClosed(other); })) << "of the other kind";
    EXPECT_EQ(acceptor.given(), 0u);
    const Fd right = Connect(address);
    EXPECT_TRUE(Say(right, tls ? "\x16\x03\x01" : kHttp2));
    EXPECT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  }
}

TEST(AcceptorTest, APrefaceMayComeInPieces) {
  KeepingAcceptor acceptor(On("127.0.0.1:0"));
  const Fd caller = Connect(acceptor->addresses()[0]);
  for (const char byte : kHttp2) ASSERT_TRUE(Say(caller, {&byte, 1}));
  EXPECT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
}

TEST(AcceptorTest, LimitsInAllAndOfAPeer) {
  AcceptorOptions options = On("127.0.0.1:0");
  options.max_connections = 6;
  options.peer.connections = 4;
  KeepingAcceptor acceptor(std::move(options));
  std::vector<Fd> callers;
  for (int i = 0; i < 8; ++i) callers.push_back(Connect(acceptor->addresses()[0]));
  for (const Fd& caller : callers) Say(caller, kHttp2);
  EXPECT_TRUE(Eventually([&] { return acceptor.observer().refused(RefuseCause::kPeerConnections) == 4; }));
  EXPECT_TRUE(Eventually([&] { return acceptor.given() == 4; }));
  callers.clear();
  EXPECT_EQ(acceptor->connections(), 4u) << "whoever was given them has not closed them";
  acceptor.CloseAll();
  EXPECT_TRUE(Eventually([&] { return acceptor->connections() == 0; }));
  const Fd next = Connect(acceptor->addresses()[0]);
  Say(next, kHttp2);
  EXPECT_TRUE(Eventually([&] { return acceptor.given() == 1; })) << "there is room again";
}

TEST(AcceptorTest, WhoComesTooEarlyWaits) {
  AcceptorOptions options = On("127.0.0.1:0");
  options.peer.connections = 3;  // as many at once
  options.peer.connections_per_second = 20;
  KeepingAcceptor acceptor(std::move(options));
  const auto begin = Clock::now();
  for (size_t i = 1; i <= 9; ++i) {
    const Fd caller = Connect(acceptor->addresses()[0]);
    Say(caller, kHttp2);
    ASSERT_TRUE(Eventually([&] { return acceptor.given() == 1; })) << i;
    acceptor.CloseAll();
    ASSERT_TRUE(Eventually([&] { return acceptor->connections() == 0; }));
  }
  EXPECT_GE(Clock::now() - begin, milliseconds(250));
}

TEST(AcceptorTest, WithoutDescriptorsItGoesOnListening) {
  Folder folder;
  KeepingAcceptor acceptor(On("unix://" + (folder / "d.sock")));
  const std::string address = acceptor->addresses()[0];
  std::vector<Fd> hogs;
  {
    const FewFiles few(static_cast<rlim_t>(dup(0)) + 30);
    for (Fd hog(dup(0)); hog.get() >= 0; hog = Fd(dup(0))) hogs.push_back(std::move(hog));
    EXPECT_EQ(errno, EMFILE);
    hogs.pop_back();  // for the caller below
    const Fd caller = Connect(address);
    ASSERT_GE(caller.get(), 0);
    EXPECT_TRUE(Eventually([&] { return acceptor.observer().refused(RefuseCause::kDescriptors) > 0; }));
    EXPECT_TRUE(Eventually([&] { return IsClosed(caller); })) << "dropped, not left waiting for ever";
    hogs.clear();
  }
  const Fd next = Connect(address);
  ASSERT_TRUE(Say(next, kHttp2));
  EXPECT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  EXPECT_EQ(acceptor->DeadListener(), "");
}

TEST(AcceptorTest, ALowLimitOfOpenFilesLowersTheConnections) {
  const FewFiles few(200);
  Folder folder;
  auto acceptor = Acceptor::Open(On("unix://" + (folder / "d.sock")));
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  EXPECT_LT((*acceptor)->max_connections(), 90u);
  EXPECT_GT((*acceptor)->max_connections(), 20u);
  const FewFiles none(static_cast<rlim_t>(dup(0)) + 4);
  const auto refused = Acceptor::Open(On("unix://" + (folder / "e.sock")));
  EXPECT_NE(refused.status().message().find("the limit of open files is"), std::string::npos) << refused.status();
}

// 2 000 connections that come and go from four threads, while each that was handed over is closed at once. No number
// may name two connections at a time.
TEST(AcceptorTest, RapidChurnLeavesNothing) {
  Folder folder;
  AcceptorOptions options = On("unix://" + (folder / "d.sock"));
  options.peer = {.connections = 100'000, .connections_per_second = 1e6, .handshakes_per_second = 1};
  Counting observer;
  options.observer = &observer;
  auto opened = Acceptor::Open(std::move(options));
  ASSERT_TRUE(opened.ok());
  std::atomic<int> given = 0;
  std::atomic<int> unknown = 0;
  Acceptor& acceptor = **opened;
  acceptor.Start([&](int fd, int, const Connection& connection) {
    const auto found = acceptor.PeerOf("fd:" + std::to_string(fd));
    if (found != nullptr && found->id != connection.id) ++unknown;  // null: the caller has left already
    ++given;
    shutdown(fd, SHUT_RDWR);
    close(fd);
  });
  std::vector<std::thread> callers;
  for (int thread = 0; thread < 4; ++thread) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Fd caller = Connect(acceptor.addresses()[0]);
        Say(caller, kHttp2);
        if (i % 3 != 0) Eventually([&] { return IsClosed(caller); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(Eventually([&] { return acceptor.connections() == 0; }));
  EXPECT_GT(given, 1'000);
  EXPECT_EQ(unknown, 0);
  acceptor.StopAccepting();
  EXPECT_EQ(Connect(acceptor.addresses()[0]).get(), -1);
}

// A reader of a connection may be caught in it for as long as bytes come, as gRPC is.
AcceptorOptions Crowded(const Folder& folder, Counting* observer) {
  AcceptorOptions options = On("unix://" + (folder / "d.sock"));
  options.observer = observer;
  return options;
}

void ReadWhatComes(int fd) {
  char bytes[256];
  pollfd at{.fd = fd, .events = POLLIN, .revents = 0};
  while (poll(&at, 1, 20'000) > 0 && recv(fd, bytes, sizeof(bytes), 0) > 0) {
  }
  close(fd);
}

TEST(AcceptorTest, AHandOverThatIsCaughtKeepsNobodyOut) {
  Folder folder;
  Counting observer;
  auto acceptor = Acceptor::Open(Crowded(folder, &observer));
  ASSERT_TRUE(acceptor.ok());
  std::atomic<size_t> given = 0;
  (*acceptor)->Start([&](int fd, int, const Connection&) {
    ++given;
    ReadWhatComes(fd);
  });
  std::vector<Fd> callers;
  const auto come_in = [&] {
    callers.push_back(Connect((*acceptor)->addresses()[0]));
    EXPECT_TRUE(Say(callers.back(), kHttp2));
  };
  for (size_t i = 0; i < Handing::kMostThreads; ++i) come_in();
  EXPECT_TRUE(Eventually([&] { return given == Handing::kMostThreads; }));
  EXPECT_EQ(observer.cut(CutCause::kNoPause), 0) << "nobody else waits";
  come_in();
  EXPECT_TRUE(Eventually([&] { return given == Handing::kMostThreads + 1; })) << "one of the others had to go";
  EXPECT_TRUE(Eventually([&] { return observer.cut(CutCause::kNoPause) == 1; }));
  EXPECT_TRUE(IsClosed(callers.front()));
  EXPECT_FALSE(IsClosed(callers.back()));
}

TEST(AcceptorTest, StopAcceptingWaitsForTheHandOverAndCutsWhoeverKeepsIt) {
  Folder folder;
  Counting observer;
  auto acceptor = Acceptor::Open(Crowded(folder, &observer));
  ASSERT_TRUE(acceptor.ok());
  std::atomic<bool> begun = false;
  std::atomic<bool> over = false;
  (*acceptor)->Start([&](int fd, int, const Connection&) {
    begun = true;
    ReadWhatComes(fd);
    over = true;
  });
  const Fd caller = Connect((*acceptor)->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return begun.load(); }));
  (*acceptor)->StopAccepting();
  EXPECT_TRUE(over);
  EXPECT_EQ(observer.cut(CutCause::kNoPause), 1);
}

TEST(AcceptorTest, BytesThatBelongToNoMessageCut) {
  AcceptorOptions options = On("127.0.0.1:0");
  options.calls.unused_bytes_at_once = 100'000;
  options.calls.unused_bytes_per_second = 1'000;
  KeepingAcceptor acceptor(std::move(options));
  const Fd caller = Connect(acceptor->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  const auto connection = acceptor.connection();
  const std::string megabyte(1 << 20, 'x');
  std::string sink(1 << 20, ' ');
  const auto send_and_read = [&](size_t bytes) {
    std::thread sender([&] { Say(caller, std::string_view(megabyte).substr(0, bytes)); });
    for (size_t got = 0; got < bytes;) {
      const ssize_t more = recv(acceptor.fd(), sink.data(), sink.size(), 0);
      if (more > 0) got += static_cast<size_t>(more);
      if (more == 0) break;
      if (more < 0) std::this_thread::yield();
    }
    sender.join();
  };
  for (int i = 0; i < 60; ++i) {
    send_and_read(50'000);
    connection->OnMessage(50'000);  // what came was a message
  }
  send_and_read(50'000);
  std::this_thread::sleep_for(milliseconds(250));  // for the acceptor to look: nothing must happen
  EXPECT_FALSE(connection->was_cut());
  for (int i = 0; i < 2; ++i) connection->OnCall(0);
  send_and_read(200'000);  // the beginnings of messages that the broker has not come to read
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_FALSE(connection->was_cut());
  send_and_read(200'000);
  EXPECT_TRUE(Eventually([&] { return connection->was_cut() && IsClosed(caller); }));
  // Told after the connection is closed, by the acceptor's thread.
  EXPECT_TRUE(Eventually([&] { return acceptor.observer().cut(CutCause::kUnusedBytes) == 1; }));
}

TEST(AcceptorTest, BytesThatNobodyHasReadCostNothing) {
  AcceptorOptions options = On("127.0.0.1:0");
  options.calls.unused_bytes_at_once = 50'000;
  options.calls.unused_bytes_per_second = 1'000;
  KeepingAcceptor acceptor(std::move(options));
  const Fd caller = Connect(acceptor->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return acceptor.given() == 1; }));
  ASSERT_TRUE(Say(caller, std::string(200'000, 'x')));  // as when the broker was stopped for a while
  std::this_thread::sleep_for(milliseconds(250));       // for the acceptor to look: nothing must happen
  EXPECT_FALSE(acceptor.connection()->was_cut());
}

}  // namespace
}  // namespace distlock::acceptor
