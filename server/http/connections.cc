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

Connections::Connections(const ConnectionLimits& limits, Clock::duration request_time, Clock::duration idle_time)
    : limits_(limits),
      request_time_(request_time),
      idle_time_(idle_time),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      opened_(limits.open_of_peer),
      served_by_peer_(limits.served_of_peer) {
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
  Connection& at = connections_[connection];
  at = {.fd = fd, .peer = std::move(peer), .due = Clock::now() + request_time_};
  if (Enter(at.peer.counts_as)) {
    Await(connection, at);
  } else {
    at.cut = true;
    shutdown(fd, SHUT_RDWR);
  }
}

bool Connections::Enter(const std::string& peer) {
  if (!opened_.Enter(peer) && !(CutOldestOf(peer) && opened_.Enter(peer))) return false;
  if (open_count_ >= limits_.open && !CutOldest()) {
    opened_.Leave(peer);
    return false;
  }
  ++open_count_;
  return true;
}

void Connections::Await(MHD_Connection* connection, Connection& at) {
  at.turn = ++last_turn_;
  awaiting_.emplace(at.turn, connection);
  awaiting_of_peer_.emplace(std::pair(at.peer.counts_as, at.turn), connection);
}

void Connections::AwaitNoMore(Connection& at) {
  awaiting_.erase(at.turn);
  awaiting_of_peer_.erase({at.peer.counts_as, at.turn});
  at.turn = 0;
}

bool Connections::CutOldest() {
  if (awaiting_.empty()) return false;
  Cut(connections_.at(awaiting_.begin()->second));
  return true;
}

bool Connections::CutOldestOf(const std::string& peer) {
  const auto oldest = awaiting_of_peer_.lower_bound({peer, 0});
  if (oldest == awaiting_of_peer_.end() || oldest->first.first != peer) return false;
  Cut(connections_.at(oldest->second));
  return true;
}

void Connections::Cut(Connection& at) {
  Forget(at);
  at.cut = true;
  shutdown(at.fd, SHUT_RDWR);
}

void Connections::Forget(Connection& at) {
  if (at.turn == 0) {
    --served_count_;
    served_by_peer_.Leave(at.peer.counts_as);
  } else {
    AwaitNoMore(at);
  }
  --open_count_;
  opened_.Leave(at.peer.counts_as);
}

void Connections::Closed(MHD_Connection* connection) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  if (!found->second.cut) Forget(found->second);
  watches_.erase(found->second.watch);
  connections_.erase(found);
}

Peer Connections::PeerOf(MHD_Connection* connection) const {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  return found == connections_.end() ? Peer() : found->second.peer;
}

void Connections::Begin(const std::shared_ptr<Exchange>& exchange) {
  std::unique_lock lock(mu_);
  open_[exchange.get()] = exchange;
  if (!stopping_) return;
  const Reply why = why_;
  lock.unlock();
  exchange->Stop(why);
}

Connections::Place Connections::Arrived(MHD_Connection* connection) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found == connections_.end() || found->second.cut) return Place::kCut;
  Connection& at = found->second;
  at.due = Clock::time_point::max();
  if (served_count_ >= limits_.served) return Place::kAllTaken;
  if (!served_by_peer_.Enter(at.peer.counts_as)) return Place::kPeerHasItsShare;
  ++served_count_;
  AwaitNoMore(at);
  return Place::kFree;
}

void Connections::Served(MHD_Connection* connection, const Exchange* exchange) {
  std::lock_guard lock(mu_);
  const auto found = connections_.find(connection);
  if (found != connections_.end()) {
    Connection& at = found->second;
    at.due = Clock::now() + idle_time_;
    if (at.turn == 0 && !at.cut) {
      --served_count_;
      served_by_peer_.Leave(at.peer.counts_as);
      Await(connection, at);
    }
  }
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
