// SPDX-License-Identifier: Apache-2.0
#include "proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace distlock::store {

Proxy::Proxy(std::string server_socket) : server_socket_(std::move(server_socket)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  listen(listener_, 16);
  socklen_t size = sizeof(address);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
  for (auto& pair : pairs_) Reset(pair);
  close(listener_);
}

StoreUrl Proxy::Url() const {
  StoreUrl url;
  url.transport = StoreUrl::Transport::kTcp;
  url.address.host = "127.0.0.1";
  url.address.port = port_;
  return url;
}

void Proxy::LeadTo(std::string server_socket) {
  const std::lock_guard lock(lead_);
  server_socket_ = std::move(server_socket);
}

void Proxy::Inject(const std::string& bytes) {
  injection_ = bytes;
  inject_ = true;
}

void Proxy::Reset(Pair& pair) {
  if (pair.dead) return;
  const linger hard{1, 0};
  setsockopt(pair.client, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close(pair.client);
  close(pair.server);
  pair.dead = true;
}

void Proxy::AcceptOne() {
  Pair pair;
  pair.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (pair.client < 0) return;
  ++accepted_;
  pair.server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  {
    const std::lock_guard lock(lead_);
    server_socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  }
  const bool ok = connect(pair.server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (!ok || refuse_new_) return Reset(pair);
  pairs_.push_back(pair);
}

void Proxy::Shovel(Pair& pair, bool from_server) {
  char buffer[16384];
  const int from = from_server ? pair.server : pair.client;
  const int to = from_server ? pair.client : pair.server;
  ssize_t got = recv(from, buffer, sizeof(buffer), 0);
  if (got <= 0 && from_server && hide_closes_) {
    pair.server_ended = true;
    return;
  }
  if (got <= 0) return Reset(pair);
  if (!from_server) request_bytes_ += static_cast<uint64_t>(got);
  bool reset = false;
  if (from_server && reply_budget_ >= 0) {
    reset = got >= reply_budget_;
    got = std::min<ssize_t>(got, reply_budget_);
    reply_budget_ -= got;
  }
  if (pair.server_ended) return;  // nobody reads it
  for (ssize_t at = 0; at < got;) {
    const ssize_t sent = send(to, buffer + at, static_cast<size_t>(got - at), MSG_NOSIGNAL);
    if (sent <= 0) return Reset(pair);
    at += sent;
  }
  if (reset) {
    reply_budget_ = -1;
    // Gracefully for what was sent, so that it surely arrives; then nothing more.
    shutdown(pair.client, SHUT_RDWR);
    close(pair.client);
    close(pair.server);
    pair.dead = true;
  }
}

void Proxy::Run() {
  while (!stop_) {
    if (reset_all_.exchange(false)) {
      for (auto& pair : pairs_) Reset(pair);
    }
    if (inject_.exchange(false)) {
      for (auto& pair : pairs_) send(pair.client, injection_.data(), injection_.size(), MSG_NOSIGNAL);
    }
    pairs_.remove_if([](const Pair& pair) { return pair.dead; });
    std::vector<pollfd> fds = {{listener_, POLLIN, 0}};
    for (const auto& pair : pairs_) {
      fds.push_back({pair.client, static_cast<short>(pause_requests_ ? 0 : POLLIN), 0});
      fds.push_back({pair.server_ended ? -1 : pair.server, static_cast<short>(pause_replies_ ? 0 : POLLIN), 0});
    }
    if (poll(fds.data(), fds.size(), 2) <= 0) continue;
    size_t i = 1;
    for (auto& pair : pairs_) {
      if (!pair.dead && fds[i].revents != 0) Shovel(pair, false);
      if (!pair.dead && !pair.server_ended && fds[i + 1].revents != 0) Shovel(pair, true);
      i += 2;
    }
    if (fds[0].revents != 0) AcceptOne();
  }
}

}  // namespace distlock::store
