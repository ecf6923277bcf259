// SPDX-License-Identifier: Apache-2.0
#include "acceptor/deaths.h"

#include <sys/epoll.h>

#include <array>
#include <utility>
#include <vector>

namespace distlock::acceptor {

Deaths::Deaths(ProcessProbe probe, size_t most, std::chrono::milliseconds linger, Observer* observer)
    : probe_(std::move(probe)),
      most_(most),
      linger_(linger),
      observer_(observer),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

bool Deaths::Bind(const Connection& connection, const ProcessClaim& claim, uint64_t key, OnDeath on_death) {
  {
    std::lock_guard lock(mu_);
    const auto found = watched_.find(connection.id);
    if (found != watched_.end()) {
      // The kernel says the same of a connection for ever.
      if (found->second.inode != claim.pidfd_inode || claim.boot_id != probe_.boot_id) return false;
      found->second.told.insert_or_assign(key, std::move(on_death));
      return true;
    }
  }
  Fd pidfd;
  connection.WithSocket([&](int socket) { pidfd = ProvenProcess(probe_, socket, claim); });
  if (pidfd.get() < 0) return false;
  std::lock_guard lock(mu_);
  if (stopped_ || watched_.size() >= most_) return false;
  const auto [at, fresh] = watched_.try_emplace(connection.id);
  at->second.told.insert_or_assign(key, std::move(on_death));
  if (!fresh) return true;  // another call of the connection was faster
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u64 = connection.id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, pidfd.get(), &event) != 0) {
    watched_.erase(at);
    return false;
  }
  at->second.pidfd = std::move(pidfd);
  at->second.inode = claim.pidfd_inode;
  // It was not here yet when the connection left.
  if (connection.is_closed()) due_.push_back({.at = Clock::now() + linger_, .connection = connection.id});
  return true;
}

void Deaths::OnReadable() {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  std::vector<Process> ended;
  std::lock_guard telling(telling_);
  {
    std::lock_guard lock(mu_);
    for (int i = 0; i < count; ++i) {
      const auto found = watched_.find(events[static_cast<size_t>(i)].data.u64);
      if (found == watched_.end()) continue;
      ended.push_back(std::move(found->second));
      watched_.erase(found);
    }
  }
  for (const Process& process : ended) {
    if (!process.told.empty() && observer_ != nullptr) observer_->OnDeath();
    for (const auto& [key, on_death] : process.told) on_death();
  }
}

void Deaths::Unbind(uint64_t connection, uint64_t key, bool for_good, Clock::time_point now) {
  std::lock_guard lock(mu_);
  if (!watched_.contains(connection)) return;
  const Due due{.at = now + (for_good ? std::chrono::milliseconds(0) : linger_), .connection = connection, .key = key};
  for_good ? Forget(due) : due_.push_back(due);
}

void Deaths::Leave(uint64_t connection, Clock::time_point now) {
  std::lock_guard lock(mu_);
  if (watched_.contains(connection)) due_.push_back({.at = now + linger_, .connection = connection});
}

void Deaths::Tick(Clock::time_point now) {
  std::lock_guard lock(mu_);
  for (; !due_.empty() && due_.front().at <= now; due_.pop_front()) Forget(due_.front());
}

void Deaths::Forget(const Due& due) {
  const auto found = watched_.find(due.connection);
  if (found == watched_.end()) return;
  if (due.key == 0) {
    watched_.erase(found);
  } else {
    found->second.told.erase(due.key);
  }
}

void Deaths::Stop() {
  std::lock_guard telling(telling_);
  std::lock_guard lock(mu_);
  stopped_ = true;
  watched_.clear();
}

size_t Deaths::watched() const {
  std::lock_guard lock(mu_);
  return watched_.size();
}

}  // namespace distlock::acceptor
