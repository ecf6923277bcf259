// SPDX-License-Identifier: Apache-2.0
#include "bench/delay_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <unordered_map>

namespace distlock::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxEvents = 64;
constexpr size_t kReadBytes = 256 * 1024;

volatile sig_atomic_t delays = 0;

[[noreturn]] void Fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long for a unix socket: " + path);
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

int Listen(int family, const void* address, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  if (family == AF_INET) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (fd < 0 || bind(fd, static_cast<const sockaddr*>(address), size) != 0 || listen(fd, 1024) != 0) Fail("listen");
  return fd;
}

// Bytes on their way to `to`, which leave at `due`. No bytes: the sender has closed.
struct Chunk {
  Clock::time_point due;
  int to = -1;
  std::string bytes;
};

class Proxy {
 public:
  Proxy(int port, const std::string& socket_path, const std::string& target, std::chrono::microseconds one_way)
      : target_(UnixAddress(target)), one_way_(one_way) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (epoll_ < 0 || timer_ < 0) Fail("epoll");
    sockaddr_in tcp{};
    tcp.sin_family = AF_INET;
    tcp.sin_port = htons(static_cast<uint16_t>(port));
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    tcp_ = Listen(AF_INET, &tcp, sizeof tcp);
    const sockaddr_un local = UnixAddress(socket_path);
    unix_ = Listen(AF_UNIX, &local, sizeof local);
    for (const int fd : {timer_, tcp_, unix_}) Watch(fd);
  }

  [[noreturn]] void Run() {
    epoll_event events[kMaxEvents];
    while (true) {
      const int count = epoll_wait(epoll_, events, kMaxEvents, -1);
      if (count < 0 && errno != EINTR) Fail("epoll_wait");
      for (int i = 0; i < count; ++i) {
        const int fd = events[i].data.fd;
        if (fd == timer_) {
          uint64_t expired = 0;
          if (read(timer_, &expired, sizeof expired) < 0 && errno != EAGAIN) Fail("timerfd");
        } else if (fd == tcp_ || fd == unix_) {
          Accept(fd);
        } else if (peers_.contains(fd)) {
          Read(fd);
        }
      }
      SendDue();
    }
  }

 private:
  void Watch(int fd) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) Fail("epoll_ctl");
  }

  void Accept(int listener) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(server, reinterpret_cast<const sockaddr*>(&target_), sizeof target_) != 0) {
      close(client);
      close(server);
      return;
    }
    const int yes = 1;
    if (listener == tcp_) setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    peers_[client] = server;
    peers_[server] = client;
    Watch(client);
    Watch(server);
  }

  void Read(int fd) {
    std::string bytes(kReadBytes, '\0');
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    bytes.shrink_to_fit();
    if (bytes.empty()) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    const auto wait = delays != 0 ? one_way_ : std::chrono::microseconds(0);
    chunks_.push_back({Clock::now() + wait, peers_.at(fd), std::move(bytes)});
  }

  // All bytes wait equally long once there is a delay, so one line of chunks is in order for all connections.
  void SendDue() {
    while (!chunks_.empty() && chunks_.front().due <= Clock::now()) {
      const Chunk chunk = std::move(chunks_.front());
      chunks_.pop_front();
      if (peers_.contains(chunk.to)) Send(chunk);
    }
    if (chunks_.empty()) return;
    const auto left =
        std::max<std::chrono::nanoseconds>(chunks_.front().due - Clock::now(), std::chrono::nanoseconds(1));
    const itimerspec at{.it_interval = {},
                        .it_value = {.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000}};
    timerfd_settime(timer_, 0, &at, nullptr);
  }

  // Sockets block while writing: a receiver that does not read holds up everybody, which no client of a bench does.
  void Send(const Chunk& chunk) {
    if (chunk.bytes.empty()) return Close(chunk.to);
    for (size_t at = 0; at < chunk.bytes.size();) {
      const ssize_t sent = send(chunk.to, chunk.bytes.data() + at, chunk.bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return Close(chunk.to);
      at += static_cast<size_t>(sent);
    }
  }

  void Close(int fd) {
    const int peer = peers_.at(fd);
    for (const int one : {fd, peer}) {
      peers_.erase(one);
      close(one);
    }
    // A new connection may get the same number: what is still on its way to the old one must not reach it.
    std::erase_if(chunks_, [&](const Chunk& chunk) { return chunk.to == fd || chunk.to == peer; });
  }

  const sockaddr_un target_;
  const std::chrono::microseconds one_way_;
  int epoll_ = -1;
  int timer_ = -1;
  int tcp_ = -1;
  int unix_ = -1;
  std::unordered_map<int, int> peers_;  // both ends of each connection, each to the other
  std::deque<Chunk> chunks_;
};

}  // namespace

int RunDelayProxy(int port, const std::string& socket, const std::string& target, std::chrono::microseconds round_trip,
                  bool is_told) {
  try {
    delays = is_told ? 0 : 1;
    if (is_told) signal(kDelayNow, [](int) { delays = 1; });
    Proxy(port, socket, target, round_trip / 2).Run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "delay proxy: %s\n", e.what());
    return 1;
  }
}

}  // namespace distlock::bench
