// SPDX-License-Identifier: Apache-2.0
#include "door/door.h"

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

#include "door/callers.h"

namespace distlock::door {
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

DoorOptions On(const std::string& address) {
  DoorOptions options;
  options.listen = {address};
  return options;
}

TEST(DoorTest, ACallerOfAUnixSocketIsKnownByTheNumberThatGrpcIsGiven) {
  Folder folder;
  KeepingDoor door(On("unix://" + (folder / "d.sock")));
  const Fd caller = Connect(door->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return door.given() == 1; }));
  const auto visitor = door.visitor();
  ASSERT_NE(visitor, nullptr);
  ASSERT_TRUE(visitor->who);
  EXPECT_EQ(visitor->who->uid, getuid());
  EXPECT_EQ(visitor->who->gid, getgid());
  EXPECT_EQ(visitor->who->pid, getpid());
  EXPECT_EQ(visitor->peer, "unix:uid=" + std::to_string(getuid()));
  std::vector<gid_t> groups(64);
  groups.resize(static_cast<size_t>(std::max(0, getgroups(64, groups.data()))));
  EXPECT_EQ(visitor->who->groups, groups);
  EXPECT_EQ(door->PeerOf("fd:1"), nullptr);
  EXPECT_EQ(door->PeerOf("unknown"), nullptr);

  char bytes[64];
  EXPECT_EQ(recv(door.fd(), bytes, sizeof(bytes), 0), static_cast<ssize_t>(kHttp2.size())) << "none was taken away";
  visitor->Cut(CutCause::kRevoked);
  EXPECT_TRUE(Eventually([&] { return IsClosed(caller) && door->connections() == 0; }));
  EXPECT_EQ(door.observer().cut(CutCause::kRevoked), 1);
}

TEST(DoorTest, ACallerByTcpIsKnownByItsAddress) {
  KeepingDoor door(On("127.0.0.1:0"));
  const Fd caller = Connect(door->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return door.given() == 1; }));
  const auto visitor = door.visitor();
  ASSERT_NE(visitor, nullptr);
  EXPECT_EQ(visitor->peer, "ipv4:127.0.0.1");
  EXPECT_FALSE(visitor->who);
  door.CloseAll();
  EXPECT_TRUE(Eventually([&] { return door->connections() == 0 && IsClosed(caller); }));
  EXPECT_EQ(door->PeerOf(visitor->address), nullptr);
}

TEST(DoorTest, OnlyWhatBeginsLikeItsProtocolIsHandedOver) {
  for (const bool tls : {false, true}) {
    DoorOptions options = On("127.0.0.1:0");
    options.tls = tls;
    options.patience = milliseconds(300);
    KeepingDoor door(std::move(options));
    const std::string address = door->addresses()[0];
    const Fd http1 = Connect(address);
    const Fd silent = Connect(address);
    const Fd half = Connect(address);
    EXPECT_TRUE(Say(http1, "GET / HTTP/1.1\r\n\r\n"));
    EXPECT_TRUE(Say(half, tls ? "" : "PRI * HT"));
    EXPECT_TRUE(Eventually([&] { return IsClosed(http1) && IsClosed(silent) && IsClosed(half); }));
    EXPECT_TRUE(Eventually([&] { return door.observer().refused(RefuseCause::kPreface) == 3; }));
    const Fd other = Connect(address);
    EXPECT_TRUE(Say(other, tls ? kHttp2 : "\x16\x03\x01"));
    EXPECT_TRUE(Eventually([&] { return IsClosed(other); })) << "of the other kind";
    EXPECT_EQ(door.given(), 0u);
    const Fd right = Connect(address);
    EXPECT_TRUE(Say(right, tls ? "\x16\x03\x01" : kHttp2));
    EXPECT_TRUE(Eventually([&] { return door.given() == 1; }));
  }
}

TEST(DoorTest, APrefaceMayComeInPieces) {
  KeepingDoor door(On("127.0.0.1:0"));
  const Fd caller = Connect(door->addresses()[0]);
  for (const char byte : kHttp2) ASSERT_TRUE(Say(caller, {&byte, 1}));
  EXPECT_TRUE(Eventually([&] { return door.given() == 1; }));
}

TEST(DoorTest, LimitsInAllAndOfAPeer) {
  DoorOptions options = On("127.0.0.1:0");
  options.max_connections = 6;
  options.peer.connections = 4;
  KeepingDoor door(std::move(options));
  std::vector<Fd> callers;
  for (int i = 0; i < 8; ++i) callers.push_back(Connect(door->addresses()[0]));
  for (const Fd& caller : callers) Say(caller, kHttp2);
  EXPECT_TRUE(Eventually([&] { return door.observer().refused(RefuseCause::kPeerConnections) == 4; }));
  EXPECT_TRUE(Eventually([&] { return door.given() == 4; }));
  callers.clear();
  EXPECT_EQ(door->connections(), 4u) << "whoever was given them has not closed them";
  door.CloseAll();
  EXPECT_TRUE(Eventually([&] { return door->connections() == 0; }));
  const Fd next = Connect(door->addresses()[0]);
  Say(next, kHttp2);
  EXPECT_TRUE(Eventually([&] { return door.given() == 1; })) << "there is room again";
}

TEST(DoorTest, WhoComesTooEarlyWaits) {
  DoorOptions options = On("127.0.0.1:0");
  options.peer.connections = 3;  // as many at once
  options.peer.connections_per_second = 20;
  KeepingDoor door(std::move(options));
  const auto begin = Clock::now();
  for (size_t i = 1; i <= 9; ++i) {
    const Fd caller = Connect(door->addresses()[0]);
    Say(caller, kHttp2);
    ASSERT_TRUE(Eventually([&] { return door.given() == 1; })) << i;
    door.CloseAll();
    ASSERT_TRUE(Eventually([&] { return door->connections() == 0; }));
  }
  EXPECT_GE(Clock::now() - begin, milliseconds(250));
}

TEST(DoorTest, WithoutDescriptorsItGoesOnListening) {
  Folder folder;
  KeepingDoor door(On("unix://" + (folder / "d.sock")));
  const std::string address = door->addresses()[0];
  std::vector<Fd> hogs;
  {
    const FewFiles few(static_cast<rlim_t>(dup(0)) + 30);
    for (Fd hog(dup(0)); hog.get() >= 0; hog = Fd(dup(0))) hogs.push_back(std::move(hog));
    EXPECT_EQ(errno, EMFILE);
    hogs.pop_back();  // for the caller below
    const Fd caller = Connect(address);
    ASSERT_GE(caller.get(), 0);
    EXPECT_TRUE(Eventually([&] { return door.observer().refused(RefuseCause::kDescriptors) > 0; }));
    EXPECT_TRUE(Eventually([&] { return IsClosed(caller); })) << "dropped, not left waiting for ever";
    hogs.clear();
  }
  const Fd next = Connect(address);
  ASSERT_TRUE(Say(next, kHttp2));
  EXPECT_TRUE(Eventually([&] { return door.given() == 1; }));
  EXPECT_EQ(door->DeadListener(), "");
}

TEST(DoorTest, ALowLimitOfOpenFilesLowersTheConnections) {
  const FewFiles few(200);
  Folder folder;
  auto door = Door::Open(On("unix://" + (folder / "d.sock")));
  ASSERT_TRUE(door.ok()) << door.status();
  EXPECT_LT((*door)->max_connections(), 90u);
  EXPECT_GT((*door)->max_connections(), 20u);
  const FewFiles none(static_cast<rlim_t>(dup(0)) + 4);
  const auto refused = Door::Open(On("unix://" + (folder / "e.sock")));
  EXPECT_NE(refused.status().message().find("the limit of open files is"), std::string::npos) << refused.status();
}

// 2 000 connections that come and go from four threads, while each that was handed over is closed at once. No number
// may name two connections at a time.
TEST(DoorTest, RapidChurnLeavesNothing) {
  Folder folder;
  DoorOptions options = On("unix://" + (folder / "d.sock"));
  options.peer = {.connections = 100'000, .connections_per_second = 1e6, .handshakes_per_second = 1};
  Counting observer;
  options.observer = &observer;
  auto opened = Door::Open(std::move(options));
  ASSERT_TRUE(opened.ok());
  std::atomic<int> given = 0;
  std::atomic<int> unknown = 0;
  Door& door = **opened;
  door.Start([&](int fd, int, const Visitor& visitor) {
    const auto found = door.PeerOf("fd:" + std::to_string(fd));
    if (found != nullptr && found->id != visitor.id) ++unknown;  // null: the caller has left already
    ++given;
    shutdown(fd, SHUT_RDWR);
    close(fd);
  });
  std::vector<std::thread> callers;
  for (int thread = 0; thread < 4; ++thread) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Fd caller = Connect(door.addresses()[0]);
        Say(caller, kHttp2);
        if (i % 3 != 0) Eventually([&] { return IsClosed(caller); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(Eventually([&] { return door.connections() == 0; }));
  EXPECT_GT(given, 1'000);
  EXPECT_EQ(unknown, 0);
  door.StopAccepting();
  EXPECT_EQ(Connect(door.addresses()[0]).get(), -1);
}

// Whoever is given a connection may be caught in it for as long as bytes come, as gRPC is.
DoorOptions Crowded(const Folder& folder, Counting* observer) {
  DoorOptions options = On("unix://" + (folder / "d.sock"));
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

TEST(DoorTest, AHandOverThatIsCaughtKeepsNobodyOut) {
  Folder folder;
  Counting observer;
  auto door = Door::Open(Crowded(folder, &observer));
  ASSERT_TRUE(door.ok());
  std::atomic<size_t> given = 0;
  (*door)->Start([&](int fd, int, const Visitor&) {
    ++given;
    ReadWhatComes(fd);
  });
  std::vector<Fd> callers;
  const auto come_in = [&] {
    callers.push_back(Connect((*door)->addresses()[0]));
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

TEST(DoorTest, StopAcceptingWaitsForTheHandOverAndCutsWhoeverKeepsIt) {
  Folder folder;
  Counting observer;
  auto door = Door::Open(Crowded(folder, &observer));
  ASSERT_TRUE(door.ok());
  std::atomic<bool> begun = false;
  std::atomic<bool> over = false;
  (*door)->Start([&](int fd, int, const Visitor&) {
    begun = true;
    ReadWhatComes(fd);
    over = true;
  });
  const Fd caller = Connect((*door)->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return begun.load(); }));
  (*door)->StopAccepting();
  EXPECT_TRUE(over);
  EXPECT_EQ(observer.cut(CutCause::kNoPause), 1);
}

TEST(DoorTest, BytesThatBelongToNoMessageCut) {
  DoorOptions options = On("127.0.0.1:0");
  options.calls.unused_bytes_at_once = 100'000;
  options.calls.unused_bytes_per_second = 1'000;
  KeepingDoor door(std::move(options));
  const Fd caller = Connect(door->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return door.given() == 1; }));
  const auto visitor = door.visitor();
  const std::string megabyte(1 << 20, 'x');
  std::string sink(1 << 20, ' ');
  const auto send_and_read = [&](size_t bytes) {
    std::thread sender([&] { Say(caller, std::string_view(megabyte).substr(0, bytes)); });
    for (size_t got = 0; got < bytes;) {
      const ssize_t more = recv(door.fd(), sink.data(), sink.size(), 0);
      if (more > 0) got += static_cast<size_t>(more);
      if (more == 0) break;
      if (more < 0) std::this_thread::yield();
    }
    sender.join();
  };
  for (int i = 0; i < 60; ++i) {
    send_and_read(50'000);
    visitor->OnMessage(50'000);  // what came was a message
  }
  send_and_read(50'000);
  std::this_thread::sleep_for(milliseconds(250));  // for the door to look: nothing must happen
  EXPECT_FALSE(visitor->was_cut());
  for (int i = 0; i < 2; ++i) visitor->OnCall(0);
  send_and_read(200'000);  // the beginnings of messages that the broker has not come to read
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_FALSE(visitor->was_cut());
  send_and_read(200'000);
  EXPECT_TRUE(Eventually([&] { return visitor->was_cut() && IsClosed(caller); }));
  // Told after the connection is closed, by the door's thread.
  EXPECT_TRUE(Eventually([&] { return door.observer().cut(CutCause::kUnusedBytes) == 1; }));
}

TEST(DoorTest, BytesThatNobodyHasReadCostNothing) {
  DoorOptions options = On("127.0.0.1:0");
  options.calls.unused_bytes_at_once = 50'000;
  options.calls.unused_bytes_per_second = 1'000;
  KeepingDoor door(std::move(options));
  const Fd caller = Connect(door->addresses()[0]);
  ASSERT_TRUE(Say(caller, kHttp2));
  ASSERT_TRUE(Eventually([&] { return door.given() == 1; }));
  ASSERT_TRUE(Say(caller, std::string(200'000, 'x')));  // as when the broker was stopped for a while
  std::this_thread::sleep_for(milliseconds(250));       // for the door to look: nothing must happen
  EXPECT_FALSE(door.visitor()->was_cut());
}

}  // namespace
}  // namespace distlock::door
