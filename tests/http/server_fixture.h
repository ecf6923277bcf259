// SPDX-License-Identifier: Apache-2.0
//
// A server of the room, and clients over plain sockets.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "http/server.h"

namespace distlock::http {

inline int Dial(const std::string& address, const char* source = "127.0.0.1") {
  if (address.starts_with("unix://")) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    address.copy(to.sun_path, sizeof(to.sun_path) - 1, 7);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = inet_addr(source);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

inline void Send(int fd, const std::string& bytes) {
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

// Reads until `until` was seen, or the end.
inline std::string Receive(int fd, const std::string& until = "") {
  std::string got;
  char byte = 0;
  while (recv(fd, &byte, 1, 0) == 1) {
    got += byte;
    if (!until.empty() && got.ends_with(until)) break;
  }
  return got;
}

// Whether the server ends the connection without having answered.
inline bool IsCut(int fd) {
  pollfd at{.fd = fd, .events = POLLIN, .revents = 0};
  char byte = 0;
  return poll(&at, 1, 5'000) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

// Hands each exchange to the test.
class ServerTest : public ::testing::Test {
 protected:
  void Begin(ServerOptions options) {
    options.max_body_bytes = 100;
    auto started = Server::Start(options, [this](const auto& exchange) {
      std::lock_guard lock(mu_);
      if (waiting_.empty()) return early_.push_back(exchange);
      waiting_.front().set_value(exchange);
      waiting_.erase(waiting_.begin());
    });
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  void Begin() { Begin({.address = "127.0.0.1:0"}); }

  std::shared_ptr<Exchange> NextExchange() {
    std::unique_lock lock(mu_);
    if (!early_.empty()) {
      auto exchange = early_.front();
      early_.erase(early_.begin());
      return exchange;
    }
    waiting_.emplace_back();
    auto next = waiting_.back().get_future();
    lock.unlock();
    return next.get();
  }

  int Ask(const std::string& head = "GET /x HTTP/1.1", const std::string& body = "", const char* source = "127.0.0.1") {
    const int fd = Dial(server_->address(), source);
    Send(fd, head + "\r\nHost: localhost\r\n" +
                 (body.empty() ? "" : "Content-Length: " + std::to_string(body.size()) + "\r\n") + "\r\n" + body);
    return fd;
  }

  std::mutex mu_;
  std::vector<std::promise<std::shared_ptr<Exchange>>> waiting_;
  std::vector<std::shared_ptr<Exchange>> early_;
  std::unique_ptr<Server> server_;
};

}  // namespace distlock::http
