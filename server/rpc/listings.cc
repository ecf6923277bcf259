// SPDX-License-Identifier: Apache-2.0
#include "rpc/listings.h"

#include <utility>

namespace distlock::rpc {

bool Listings::Begin(Start start) {
  {
    std::lock_guard lock(mu_);
    if (running_ >= kAtOnce) {
      if (waiting_.size() >= kMostWaiting) return false;
      waiting_.push_back(std::move(start));
      return true;
    }
    ++running_;
  }
  if (!start()) End();
  return true;
}

void Listings::End() {
  Start next;
  do {
    next = nullptr;  // ends outside of mu_
    std::lock_guard lock(mu_);
    if (waiting_.empty()) {
      --running_;
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  } while (!next());
}

}  // namespace distlock::rpc
