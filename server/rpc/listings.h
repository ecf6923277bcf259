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

  // Begins to ask, and returns true: End follows. False: there is nothing to ask any more, and no End follows. Must not
  // block.
  using Start = std::function<bool()>;

  // Runs `start` now, or when it is its turn, on the thread that ends another. False: too many wait, and `start` is
  // dropped.
  bool Begin(Start start);
  // Once for each `start` that has returned true; also while it still runs.
  void End();

 private:
  std::mutex mu_;
  size_t running_ = 0;         // guarded by mu_
  std::deque<Start> waiting_;  // guarded by mu_
};

}  // namespace distlock::rpc
