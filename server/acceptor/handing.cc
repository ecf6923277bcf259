// SPDX-License-Identifier: Apache-2.0
#include "acceptor/handing.h"

#include <pthread.h>

#include <utility>

namespace distlock::acceptor {

void Handing::Give(std::shared_ptr<Connection> connection, std::function<void()> hand_over) {
  std::lock_guard lock(mu_);
  waiting_.push_back({std::move(connection), std::move(hand_over)});
  if (idle_ < waiting_.size() && threads_.size() < kMostThreads) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), "handing");
    return;
  }
  wake_.notify_one();
}

void Handing::Run() {
  std::unique_lock lock(mu_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    --idle_;
    if (waiting_.empty()) return;
    const auto turn = running_.insert(running_.end(), std::move(waiting_.front()));
    waiting_.pop_front();
    turn->began = Clock::now();
    lock.unlock();
    turn->hand_over();
    lock.lock();
    const Turn done = std::move(*turn);
    running_.erase(turn);
    over_.notify_all();
  }
}

void Handing::Tick(Clock::time_point now) {
  std::shared_ptr<Connection> longest;
  {
    std::lock_guard lock(mu_);
    if (waiting_.empty() || running_.size() < kMostThreads || now - running_.front().began < kPatience) return;
    longest = running_.front().connection;
  }
  longest->Cut(CutCause::kNoPause);
}

bool Handing::is_busy() const {
  std::lock_guard lock(mu_);
  return !waiting_.empty() || !running_.empty();
}

void Handing::Finish() {
  std::unique_lock lock(mu_);
  while (!over_.wait_for(lock, kPatience, [this] { return waiting_.empty() && running_.empty(); })) {
    std::vector<std::shared_ptr<Connection>> caught;
    for (const Turn& turn : running_) caught.push_back(turn.connection);
    lock.unlock();
    for (const auto& connection : caught) connection->Cut(CutCause::kNoPause);
    lock.lock();
  }
  stop_ = true;
  wake_.notify_all();
  std::vector<std::thread> ended = std::exchange(threads_, {});
  lock.unlock();
  for (std::thread& thread : ended) thread.join();
}

}  // namespace distlock::acceptor
