// SPDX-License-Identifier: Apache-2.0
//
// The open connections of a server, and the thread that watches them: it cuts those whose request does not arrive
// whole in time, tells exchanges whose client has left while they wait, and lets streams beat. Private to this room.
//
// Thread: any. Owned by the server. It never calls an exchange with its own mutex held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "http/exchange.h"

namespace distlock::http {

class Connections {
 public:
  using Clock = std::chrono::steady_clock;

  Connections(Clock::duration request_time, Clock::duration idle_time);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void Opened(MHD_Connection* connection, int fd, Peer peer);
  // Before its descriptor is closed.
  void Closed(MHD_Connection* connection);
  Peer PeerOf(MHD_Connection* connection) const;
  size_t Count() const;

  // A request has begun to be read; it has arrived whole; it was answered.
  void Begin(const std::shared_ptr<Exchange>& exchange);
  void Arrived(MHD_Connection* connection);
  void Served(MHD_Connection* connection, const Exchange* exchange);

  // While a connection is suspended, the server does not look at it.
  void Watch(MHD_Connection* connection, std::weak_ptr<Exchange> exchange);
  void Unwatch(MHD_Connection* connection);

  // Exchanges that begin are stopped at once from now on, and those that are open are stopped now.
  void Stop(const Reply& why);
  // Waits until all exchanges are served, or `patience` has passed.
  void AwaitServed(Clock::duration patience);

 private:
  struct Connection {
    int fd = -1;
    Peer peer;
    Clock::time_point due = Clock::time_point::max();  // for the next request
    uint64_t watch = 0;                                // 0: not watched
  };

  void Run();
  void Sweep();
  void TellLeft(uint64_t watch);

  const Clock::duration request_time_;
  const Clock::duration idle_time_;
  const int epoll_;
  const int wake_;  // eventfd

  // Guarded by mu_.
  mutable std::mutex mu_;
  std::condition_variable served_;
  std::unordered_map<MHD_Connection*, Connection> connections_;
  // Who is told when a client leaves. Descriptors are used again, these numbers are not.
  std::unordered_map<uint64_t, std::weak_ptr<Exchange>> watches_;
  uint64_t last_watch_ = 0;
  std::unordered_map<const Exchange*, std::shared_ptr<Exchange>> open_;
  bool stopping_ = false;
  bool ended_ = false;
  Reply why_;

  std::thread thread_;  // last: it uses the rest
};

}  // namespace distlock::http
