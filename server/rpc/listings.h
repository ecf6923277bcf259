// SPDX-License-Identifier: Apache-2.0
//
// Lets only a few ListLocks calls ask the store at once. Each of them reads as many locks as a page has, in the thread
// of the store that also grants locks; the others wait in line. Any thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

namespace distlock::rpc {

class Listings {
 public:
  static constexpr size_t kAtOnce = 4;
  static constexpr size_t kMostWaiting = 2'000;

  // Runs `start` now, or when it is its turn, on the thread that ends another; it must not block. End must follow.
  // False: too many wait, and `start` is dropped.
  bool Begin(std::function<void()> start);
  // Once for each `start` that has run.
  void End();

 private:
  std::mutex mu_;
  size_t running_ = 0;                         // guarded by mu_
  std::deque<std::function<void()>> waiting_;  // guarded by mu_
};

}  // namespace distlock::rpc
