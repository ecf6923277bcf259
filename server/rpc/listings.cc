// SPDX-License-Identifier: Apache-2.0
#include "rpc/listings.h"

#include <utility>

namespace distlock::rpc {

bool Listings::Begin(std::function<void()> start) {
  {
    std::lock_guard lock(mu_);
    if (running_ >= kAtOnce) {
      if (waiting_.size() >= kMostWaiting) return false;
      waiting_.push_back(std::move(start));
      return true;
    }
    ++running_;
  }
  start();
  return true;
}

void Listings::End() {
  std::function<void()> next;
  {
    std::lock_guard lock(mu_);
    if (waiting_.empty()) {
      --running_;
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  next();
}

}  // namespace distlock::rpc
