// SPDX-License-Identifier: Apache-2.0
#include "http/connections.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace distlock::http {
namespace {

constexpr int kTickMs = 250;
constexpr int kEventsTogether = 64;
constexpr uint64_t kWake = 0;  // no watch

}  // namespace

Connections::Connections(Clock::duration request_time, Clock::duration idle_time)
    : request_time_(request_time),
      idle_time_(idle_time),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event wake{.events = EPOLLIN, .data = {.u64 = kWake}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &wake);
  thread_ = std::thread([this] { Run(); });
}

Connections::~Connections() {
  {
    std::lock_guard lock(mu_);
    ended_ = true;
  }
  eventfd_write(wake_, 1);
  thread_.join();
  close(wake_);
  close(epoll_);
}

void Connections::Opened(MHD_Connection* connection, int fd, Peer peer) {
  std::lock_guard lock(mu_);
  if (connections_.empty()) eventfd_write(wake_, 1);
  connections_[connection] = {.fd = fd, .peer = std::move(peer), .due = Clock::now() + request_time_};
}

void Connections::Closed(MHD_Connection* connection) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  watches_.erase(found->second.watch);
  connections_.erase(found);
}

Peer Connections::PeerOf(MHD_Connection* connection) const {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  return found == connections_.end() ? Peer() : found->second.peer;
}

size_t Connections::Count() const {
  std::lock_guard lock(mu_);
  return connections_.size();
}

void Connections::Begin(const std::shared_ptr<Exchange>& exchange) {
  std::unique_lock lock(mu_);
  open_[exchange.get()] = exchange;
  if (!stopping_) return;
  const Reply why = why_;
  lock.unlock();
  exchange->Stop(why);
}

void Connections::Arrived(MHD_Connection* connection) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second.due = Clock::time_point::max();
}

void Connections::Served(MHD_Connection* connection, const Exchange* exchange) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found != connections_.end()) found->second.due = Clock::now() + idle_time_;
  open_.erase(exchange);
  if (open_.empty()) served_.notify_all();
}

void Connections::Watch(MHD_Connection* connection, std::weak_ptr<Exchange> exchange) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  Connection& at = found->second;
  watches_.erase(at.watch);
  const bool watched = std::exchange(at.watch, ++last_watch_) != 0;
  watches_[at.watch] = std::move(exchange);
  epoll_event event{.events = EPOLLRDHUP | EPOLLONESHOT, .data = {.u64 = at.watch}};
  epoll_ctl(epoll_, watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, at.fd, &event);
}

void Connections::Unwatch(MHD_Connection* connection) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  const uint64_t watch = std::exchange(found->second.watch, 0);
  if (watch == 0) return;
  watches_.erase(watch);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.fd, nullptr);
}

void Connections::Stop(const Reply& why) {
  std::vector<std::shared_ptr<Exchange>> open;
  {
    std::lock_guard lock(mu_);
    stopping_ = true;
    why_ = why;
    for (const auto& [key, exchange] : open_) open.push_back(exchange);
  }
  for (const auto& exchange : open) exchange->Stop(why);
}

void Connections::AwaitServed(Clock::duration patience) {
  std::unique_lock lock(mu_);
  served_.wait_for(lock, patience, [this] { return open_.empty(); });
}

void Connections::Run() {
  Clock::time_point next_sweep = Clock::now();
  while (true) {
    bool idle = false;
    {
      std::lock_guard lock(mu_);
      if (ended_) return;
      idle = connections_.empty();
    }
    std::array<epoll_event, kEventsTogether> events;
    const int count = epoll_wait(epoll_, events.data(), kEventsTogether, idle ? -1 : kTickMs);
    for (int i = 0; i < count; ++i) {
      const uint64_t watch = events[static_cast<size_t>(i)].data.u64;
      if (watch != kWake) {
        TellLeft(watch);
        continue;
      }
      eventfd_t ignored = 0;
      eventfd_read(wake_, &ignored);
    }
    if (Clock::now() < next_sweep) continue;
    Sweep();
    next_sweep = Clock::now() + std::chrono::milliseconds(kTickMs);
  }
}

void Connections::TellLeft(uint64_t watch) {
  std::shared_ptr<Exchange> exchange;
  {
    std::lock_guard lock(mu_);
    const auto found = watches_.find(watch);
    if (found != watches_.end()) exchange = found->second.lock();
  }
  if (exchange != nullptr) exchange->Leave();
}

void Connections::Sweep() {
  const Clock::time_point now = Clock::now();
  std::vector<std::shared_ptr<Exchange>> open;
  {
    std::lock_guard lock(mu_);
    // The descriptor is open, because Closed() comes before it is closed.
    for (auto& [key, connection] : connections_) {
      if (connection.due > now) continue;
      connection.due = Clock::time_point::max();
      shutdown(connection.fd, SHUT_RDWR);
    }
    open.reserve(open_.size());
    for (const auto& [key, exchange] : open_) open.push_back(exchange);
  }
  for (const auto& exchange : open) exchange->Beat(now);
}

}  // namespace distlock::http
