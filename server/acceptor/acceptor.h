// SPDX-License-Identifier: Apache-2.0
//
// The acceptor: accepts every connection, admits it, hands it over, and watches until it ends. The way in:
// 1. accept4, at most 16 in a row from one listener. Without a free descriptor, the reserve one is closed, one
//    connection is accepted and dropped, and the reserve is opened again.
// 2. Over limit max-connections, or over the limit of its peer (server/peer): dropped at once.
// 3. The acceptor peeks at the first bytes. A connection is dropped unless it sends the preface of HTTP/2, or where TLS
//    is on the beginning of a handshake, within 5 s.
// 4. Over the rate limits of new connections and handshakes a connection waits, for at most 5 s.
// 5. Another thread hands the connection over. The acceptor keeps a duplicate, which wakes it when the connection ends.
//
// Thread: one of its own; `hand_over` runs on the threads of handing.h; each method may be called on any thread.
// Ownership: the server's; the observer outlives the acceptor.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "acceptor/connection.h"
#include "acceptor/deaths.h"
#include "acceptor/handing.h"
#include "acceptor/listeners.h"
#include "acceptor/numbers.h"
#include "acceptor/peers.h"
#include "acceptor/probe.h"
#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

struct AcceptorOptions {
  std::vector<std::string> listen;  // unix:///path?mode=&group= or host:port; port 0 lets the kernel choose
  std::vector<int> inherited;       // InheritedSockets; the acceptor closes them
  bool tls = false;                 // TCP connections begin with a TLS handshake
  size_t max_connections = 10'000;  // lowered to what the limit of open files leaves
  PeerLimits peer;
  double handshakes_per_second = 200;  // twice as many at once; peer.handshakes_per_second is a peer's share
  CallBudget calls;
  // A process that claims to end with its connection is watched until so long after the connection's end. 0: none is.
  std::chrono::milliseconds watch_processes{0};
  std::chrono::milliseconds patience = std::chrono::seconds(5);       // for first bytes, and for a limit
  std::chrono::milliseconds user_timeout = std::chrono::seconds(15);  // TCP_USER_TIMEOUT
  Observer* observer = nullptr;                                       // may be null
};

class Acceptor {
 public:
  // Takes over `fd`, which is open, non-blocking and has unread bytes. Several threads call this at once; a call may
  // last, and must return when the connection is cut.
  using HandOver = std::function<void(int fd, int listener_fd, const Connection& connection)>;

  // Listens: callers wait in the kernel's queue until Start. An error is FailedPrecondition, its message one line.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Open(AcceptorOptions options);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  void Start(HandOver hand_over);
  // Closes the listeners, and returns when nothing is handed over any more. Connections go on.
  void StopAccepting();

  // As listened on, with the port that the kernel chose; one for each of AcceptorOptions::listen.
  const std::vector<std::string>& addresses() const { return addresses_; }
  size_t max_connections() const { return options_.max_connections; }
  // Those handed over that have not ended.
  size_t connections() const { return inside_count_.load(std::memory_order_relaxed); }

  // A call's connection, by grpc::ServerContext::peer(). Null: its connection is gone, or never came through this
  // acceptor. Only the connection of a unix socket has credentials.
  std::shared_ptr<Connection> PeerOf(std::string_view grpc_peer) const { return peers_.Find(grpc_peer); }

  // Null: no process is watched.
  Deaths* deaths() { return deaths_.get(); }

  // The address on which no connection was accepted for 15 s; "" when all accept.
  std::string DeadListener() const;

 private:
  // A connection that is not handed over yet.
  struct Waiting {
    Fd fd;
    size_t listener = 0;
    std::string address;
    std::string peer;
    Clock::time_point deadline;
    bool has_spoken = false;  // its first bytes are right
  };
  // A connection that is.
  struct Inside {
    std::shared_ptr<Connection> connection;
    std::string name;    // gRPC's name for it
    int number = -1;     // of a unix connection
    size_t sampled = 0;  // its place in sampled_
  };
  enum class FirstBytes { kMore, kRight, kWrong };

  explicit Acceptor(AcceptorOptions options);
  absl::Status Listen();
  absl::Status FitDescriptors();

  void Run();
  int TimeoutMs() const;
  void Watch(int fd, uint32_t events, uint64_t key, bool is_new);
  void OnEvent(uint64_t key, uint32_t events, Clock::time_point now);
  void Accept(size_t listener, Clock::time_point now);
  void AcceptWithoutDescriptors(size_t listener, Clock::time_point now);
  void Admit(Fd fd, size_t listener, const sockaddr_storage& from, Clock::time_point now);
  void LetIn(std::map<uint64_t, Waiting>::iterator waiting, Clock::time_point now);
  void TryLetIn(uint64_t id, Clock::time_point now);
  FirstBytes Look(const Waiting& waiting) const;
  void Refuse(RefuseCause why, const std::string& who, Fd fd, bool is_unix);
  void Drop(std::map<uint64_t, Waiting>::iterator waiting, RefuseCause why, Clock::time_point now);
  void Leave(uint64_t id, Clock::time_point now);
  void Tick(Clock::time_point now);
  void LookAtWaiting(Clock::time_point now);
  void Sample(Clock::time_point now);
  void CloseListeners();
  Kind KindOf(size_t listener) const;
  Probe& ProbeOf(size_t listener);

  AcceptorOptions options_;
  std::vector<std::string> addresses_;
  Peers peers_;
  Fd epoll_;
  Fd wake_;
  std::unique_ptr<Deaths> deaths_;
  std::atomic<size_t> inside_count_ = 0;
  std::atomic<bool> stop_accepting_ = false;
  std::atomic<bool> stop_ = false;
  std::promise<void> accepts_no_more_;
  std::thread thread_;
  HandOver hand_over_;
  Handing handing_;

  // The thread's own.
  std::vector<Listener> listeners_;
  std::list<Probe> probes_;  // as listeners_; stay until the end
  std::unique_ptr<Numbers> numbers_;
  RateLimit handshakes_;
  Fd reserve_;
  uint64_t next_id_;
  std::map<uint64_t, Waiting> waiting_;  // the oldest first
  absl::flat_hash_map<uint64_t, Inside> inside_;
  std::vector<uint64_t> sampled_;  // ids of TCP connections
  size_t next_sample_ = 0;
  Clock::time_point next_probe_{};
  Clock::time_point next_sampling_{};
  Clock::time_point next_look_{};  // at waiting_
  Clock::time_point paused_until_{};
  bool paused_ = false;
};

}  // namespace distlock::acceptor
