// SPDX-License-Identifier: Apache-2.0
//
// The HTTP port under connections that send a byte now and then, and under handlers that hang.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "ops/http.h"

namespace distlock::ops {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kSlow = 1000;

int Dialled(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

std::string Asked(int port, const std::string& path) {
  const int fd = Dialled(port);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, static_cast<size_t>(n));
  close(fd);
  return answer;
}

HttpHandlers Quick() {
  return {.metrics = [] { return std::string("m 1\n"); },
          .not_ready = [] { return std::string(); },
          .page = [](const std::string&) { return std::string("{}\n"); }};
}

void AllowManyDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_GT(limit.rlim_cur, 2 * kSlow + 100) << "this test needs more file descriptors: ulimit -Hn";
}

// Keeps many connections open, each of which sends one more byte of a head that never ends.
class SlowClients {
 public:
  explicit SlowClients(int port) : port_(port), fds_(kSlow) {
    for (int& fd : fds_) fd = Begun();
    thread_ = std::thread([this] {
      for (size_t at = 0; !stop_; at = (at + 1) % kSlow) {
        // One that was cut comes again, as an attacker's would.
        if (send(fds_[at], "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
          close(fds_[at]);
          fds_[at] = Begun();
        }
        if (at % 25 == 0) std::this_thread::sleep_for(milliseconds(5));
      }
    });
  }
  ~SlowClients() {
    stop_ = true;
    thread_.join();
    for (const int fd : fds_) close(fd);
  }

 private:
  int Begun() {
    const int fd = Dialled(port_);
    send(fd, "GET /healthz HTTP/1.1\r\nX: ", 26, MSG_NOSIGNAL);
    return fd;
  }

  const int port_;
  std::vector<int> fds_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(HttpSlow, HealthzIsAnsweredBesideAThousandSlowConnections) {
  AllowManyDescriptors();
  auto server = HttpServer::Start("127.0.0.1:0", Quick());
  ASSERT_TRUE(server.ok()) << server.status();
  const SlowClients slow((*server)->port());
  std::vector<Clock::duration> took;
  for (int i = 0; i < 60; ++i) {
    const auto begin = Clock::now();
    ASSERT_THAT(Asked((*server)->port(), "/healthz"), EndsWith("\r\n\r\nalive\n"));
    took.push_back(Clock::now() - begin);
  }
  std::sort(took.begin(), took.end());
  const auto ms = [&](size_t at) { return std::chrono::duration<double, std::milli>(took[at]).count(); };
  std::printf("healthz beside %zu slow connections: median %.2f ms, slowest %.2f ms\n", kSlow, ms(30), ms(59));
  // A machine that is shared may pause once; the server may not.
  EXPECT_LT(took[57], milliseconds(100));
}

TEST(HttpSlow, AByteNowAndThenDoesNotKeepAConnection) {
  auto server = HttpServer::Start("127.0.0.1:0", Quick());
  ASSERT_TRUE(server.ok()) << server.status();
  const int fd = Dialled((*server)->port());
  pollfd ended{fd, POLLIN, 0};
  // The first byte that cannot be sent, or an end of the stream, says that the connection was cut.
  const auto give_up = Clock::now() + std::chrono::seconds(60);
  while (Clock::now() < give_up && poll(&ended, 1, 100) == 0) send(fd, "G", 1, MSG_NOSIGNAL);
  EXPECT_LT(Clock::now(), give_up);
  close(fd);
}

TEST(HttpSlow, ProbesDoNotWaitForPagesThatHang) {
  std::promise<void> go_on;
  std::shared_future<void> held = go_on.get_future().share();
  HttpHandlers handlers = Quick();
  handlers.metrics = [held] {
    held.wait();
    return std::string("m 1\n");
  };
  auto server = HttpServer::Start("127.0.0.1:0", std::move(handlers));
  ASSERT_TRUE(server.ok()) << server.status();
  auto metrics = std::async(std::launch::async, [&] { return Asked((*server)->port(), "/metrics"); });
  EXPECT_THAT(Asked((*server)->port(), "/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Asked((*server)->port(), "/readyz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_NE(metrics.wait_for(milliseconds(0)), std::future_status::ready);
  go_on.set_value();
  EXPECT_THAT(metrics.get(), EndsWith("\r\n\r\nm 1\n"));
}

}  // namespace
}  // namespace distlock::ops
