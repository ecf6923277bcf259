// SPDX-License-Identifier: Apache-2.0
//
// The linked gRPC defends itself against frames that cost more than they carry.
#include "rpc/frame_defence.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

#ifdef DISTLOCK_GRPC_HARDENED
constexpr bool kHardened = true;
#else
constexpr bool kHardened = false;
#endif

class CutCauses final : public acceptor::Observer {
 public:
  void OnRefused(acceptor::RefuseCause, const std::string&) override {}
  void OnCut(acceptor::CutCause why, const std::string&) override {
    std::lock_guard lock(mu_);
    seen_.push_back(why);
  }
  std::vector<acceptor::CutCause> seen() const {
    std::lock_guard lock(mu_);
    return seen_;
  }

 private:
  mutable std::mutex mu_;
  std::vector<acceptor::CutCause> seen_;  // guarded by mu_
};

constexpr char kPriorityFrame[] = "\0\0\5\2\0\0\0\0\1\0\0\0\0\1";
constexpr char kPingFrame[] = "\0\0\10\6\0\0\0\0\0distlock";

std::string Repeated(const std::string& frame, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += frame;
  return all;
}

// Says the preface and the frames on a connection of its own. True: it was closed before a last ping was answered.
bool IsClosedAfter(const std::string& socket_path, const std::string& frames) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = ""};
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9) + frames +
                            std::string(kPingFrame, sizeof(kPingFrame) - 1);
  bool closed = false;
  for (size_t sent = 0; sent < bytes.size() && !closed;) {
    const ssize_t count = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    closed = count < 0;
    sent += closed ? 0 : static_cast<size_t>(count);
  }
  std::string heard;
  while (!closed && heard.find("distlock") == heard.npos) {
    std::array<char, 4096> some{};
    const ssize_t count = recv(fd, some.data(), some.size(), 0);
    closed = count <= 0;
    if (!closed) heard.append(some.data(), static_cast<size_t>(count));
  }
  close(fd);
  return closed;
}

TEST(FrameDefence, TheSelfTestTellsWhichGrpcIsLinked) { EXPECT_EQ(EndsEndlessHeaders(), kHardened); }

TEST(FrameDefence, FramesThatCarryNothingAreBounded) {
  if (!kHardened) GTEST_SKIP() << "built with DISTLOCK_GRPC=system";
  CutCauses observer;
  TestOptions options;
  options.server.acceptor.observer = &observer;
  TestBroker broker(options);
  const std::string path = broker.address().substr(std::strlen("unix:"));
  const std::string frame(kPriorityFrame, sizeof(kPriorityFrame) - 1);
  EXPECT_FALSE(IsClosedAfter(path, Repeated(frame, 15'000)));
  EXPECT_THAT(observer.seen(), testing::IsEmpty());
  EXPECT_TRUE(IsClosedAfter(path, Repeated(frame, 100'000)));
  while (observer.seen().empty()) usleep(1'000);
  EXPECT_THAT(observer.seen(), testing::ElementsAre(acceptor::CutCause::kFrames));
}

}  // namespace
}  // namespace distlock::rpc
