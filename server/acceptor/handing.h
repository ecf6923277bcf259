// SPDX-License-Identifier: Apache-2.0
//
// Hands connections over, on threads of its own. gRPC may begin to read a connection while it takes it over, and then
// goes on in that thread for as long as bytes come without a pause: the acceptor's own thread would be caught in it.
//
// Thread: as each method says.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "acceptor/connection.h"
#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

class Handing {
 public:
  // So many connections at once may come without a pause before others wait to be handed over.
  static constexpr size_t kMostThreads = 8;
  static constexpr std::chrono::seconds kPatience{1};

  Handing() = default;
  ~Handing() { Finish(); }
  Handing(const Handing&) = delete;
  Handing& operator=(const Handing&) = delete;

  // Runs `hand_over` soon. The acceptor's thread, and not after Finish.
  void Give(std::shared_ptr<Connection> connection, std::function<void()> hand_over);
  // When others wait because all threads are caught, cuts the connection that has kept its thread longest, and longer
  // than kPatience. The acceptor's thread.
  void Tick(Clock::time_point now);
  bool is_busy() const;
  // Returns when everything is handed over. A connection that keeps its thread for longer than kPatience is cut.
  void Finish();

 private:
  struct Turn {
    std::shared_ptr<Connection> connection;
    std::function<void()> hand_over;
    Clock::time_point began{};
  };
  void Run();

  mutable std::mutex mu_;
  std::condition_variable wake_;
  std::condition_variable over_;
  // Guarded by mu_.
  std::deque<Turn> waiting_;
  std::list<Turn> running_;  // the oldest first
  size_t idle_ = 0;          // threads
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace distlock::acceptor
