// SPDX-License-Identifier: Apache-2.0
//
// The open connections of a server, and the thread that watches them: it cuts those whose request does not arrive
// whole in time, tells exchanges whose client has left while they wait, and lets streams beat. One peer has a share of
// them: beyond it, those of its own that have awaited a request the longest are cut. Private to this module.
//
// Thread: any. Owned by the server. It never calls an exchange with its own mutex held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "http/exchange.h"
#include "peer/shares.h"

namespace distlock::http {

// So many at a time, in all and of one peer.
struct ConnectionLimits {
  size_t served = 0;  // requests that have arrived whole, until they are answered
  size_t served_of_peer = 0;
  size_t open = 0;  // connections
  size_t open_of_peer = 0;
};

class Connections {
 public:
  using Clock = std::chrono::steady_clock;

  Connections(const ConnectionLimits& limits, Clock::duration request_time, Clock::duration idle_time);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  // Where it is one too many, another one that awaits a request is cut: its peer's, or anybody's when only the whole is
  // used up. Where none awaits one, this one is cut.
  void Opened(MHD_Connection* connection, int fd, Peer peer);
  // Before its descriptor is closed.
  void Closed(MHD_Connection* connection);
  Peer PeerOf(MHD_Connection* connection) const;

  // A request has begun to be read; it has arrived whole; it was answered.
  void Begin(const std::shared_ptr<Exchange>& exchange);
  enum class Place { kFree, kAllTaken, kPeerHasItsShare, kCut };
  // kFree: the place is taken until Served. kCut: nobody will get an answer.
  Place Arrived(MHD_Connection* connection);
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
    uint64_t turn = 0;                                 // among those that await a request; 0: it does not
    bool cut = false;                                  // for another one; it counts no more
  };

  void Run();
  void Sweep();
  void TellLeft(uint64_t watch);

  // With mu_ held.
  bool Enter(const std::string& peer);
  void Await(MHD_Connection* connection, Connection& at);
  void AwaitNoMore(Connection& at);
  // The one that has awaited a request the longest; false: none does.
  bool CutOldest();
  bool CutOldestOf(const std::string& peer);
  void Cut(Connection& at);
  void Forget(Connection& at);

  const ConnectionLimits limits_;
  const Clock::duration request_time_;
  const Clock::duration idle_time_;
  const int epoll_;
  const int wake_;  // eventfd

  // Guarded by mu_.
  mutable std::mutex mu_;
  std::condition_variable served_;
  std::unordered_map<MHD_Connection*, Connection> connections_;
  size_t open_count_ = 0;  // without those that were cut for others
  size_t served_count_ = 0;
  peer::Shares opened_;
  peer::Shares served_by_peer_;
  // Those that await a request, by turn: of all, and of each peer.
  uint64_t last_turn_ = 0;
  std::map<uint64_t, MHD_Connection*> awaiting_;
  std::map<std::pair<std::string, uint64_t>, MHD_Connection*> awaiting_of_peer_;
  // Exchanges told when a client leaves. Descriptors are used again, these numbers are not.
  std::unordered_map<uint64_t, std::weak_ptr<Exchange>> watches_;
  uint64_t last_watch_ = 0;
  std::unordered_map<const Exchange*, std::shared_ptr<Exchange>> open_;
  bool stopping_ = false;
  bool ended_ = false;
  Reply why_;

  std::thread thread_;  // last: it uses the rest
};

}  // namespace distlock::http
