// SPDX-License-Identifier: Apache-2.0
//
// One connection, as all threads see it: who is at its other end, what its calls have cost, and how it is cut. Shared
// by the acceptor and by each call of the connection; it may outlive the connection, and does nothing then.
//
// Thread: any, except where it says otherwise.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "acceptor/byte_debt.h"
#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

enum class Kind { kUnix, kTcp, kTls };

// The process that connected to a unix socket, as the kernel knows it from the moment it connected.
struct Credentials {
  uid_t uid = 0;
  gid_t gid = 0;  // primary
  std::vector<gid_t> groups;
  pid_t pid = 0;  // 0: in a pid namespace that this process does not see
};

// Why a connection was not let in.
enum class RefuseCause {
  kConnections,      // as many as the process may have
  kPeerConnections,  // as many as its peer may have
  kRate,             // its peer opens connections, or all open TLS handshakes, too quickly
  kDescriptors,      // no descriptor was free
  kPreface,          // it sent something else than its protocol begins with, or nothing
  kPenalty,          // connections of its peer were cut again and again
};

// Why a connection was ended.
enum class CutCause {
  kEarlyCancels,  // calls that were cancelled before their first answer
  kOpenCalls,     // far more open calls than it was told it may have
  kUnusedBytes,   // bytes that belong to no message
  kFrames,        // frames that carry nothing, or headers without end: gRPC has ended it
  kNoPause,       // bytes came without a pause from its beginning on, while others waited to come in
  kRevoked,       // by whoever decides who may be here
};

// Hears what the acceptor decides, for metrics and the log. Any thread; must not block. `who` names the connection, or
// its peer where there is no connection yet.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnRefused(RefuseCause why, const std::string& who) = 0;
  virtual void OnCut(CutCause why, const std::string& who) = 0;
  // The process behind a connection has ended; somebody was told.
  virtual void OnDeath() {}
  // A unix socket's folder was not there, and has been made.
  virtual void OnFolderMade(const std::string&) {}
};

// Bytes that may be under way on one stream before it is read.
inline constexpr int64_t kStreamWindow = 64 << 10;

struct CallBudget {
  int open_calls = 4'000;
  double early_cancels_per_second = 500;
  double early_cancels_at_once = 2'000;
  int64_t unused_bytes_per_second = 1 << 20;
  int64_t unused_bytes_at_once = 2 << 20;
  // Besides, of each open call, up to so many: its window and the message that it has begun, which nobody has read yet.
  int64_t unread_bytes = 2 * kStreamWindow;
  int unread_calls = 64;
  // A call's headers, and all around a message, may cost so much without being called unused.
  int64_t call_bytes = 8 << 10;
  int64_t message_bytes = 512;
};

class Connection {
 public:
  // Takes over `watched`, a duplicate of the connection's descriptor. `observer` may be null, and outlives this.
  Connection(uint64_t id, Kind kind, std::string address, std::string peer, std::optional<Credentials> who, int watched,
             const CallBudget& budget, Observer* observer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const uint64_t id;
  const Kind kind;
  const std::string address;  // for people: "unix:uid=1000,pid=4711", "ipv4:10.0.0.7:40000"
  const std::string peer;     // who counts as one: "unix:uid=1000", "ipv4:10.0.0.7", "ipv6:2001:db8:0:1::/64"
  const std::optional<Credentials> who;  // unix sockets only

  // Ends the connection at once, in both directions. Counts and reports the first time only.
  void Cut(CutCause why);
  bool was_cut() const { return cut_.load(std::memory_order_relaxed); }

  // A call has arrived with `bytes` of message. Cuts a connection that has too many.
  void OnCall(size_t bytes);
  // A further message of a call has arrived.
  void OnMessage(size_t bytes) {
    used_bytes_.fetch_add(static_cast<int64_t>(bytes) + budget_.message_bytes, std::memory_order_relaxed);
  }
  // A message was sent, which the other end may acknowledge with frames of its own.
  void OnAnswer() { used_bytes_.fetch_add(budget_.message_bytes, std::memory_order_relaxed); }
  // A call is over. `early`: it was cancelled before its first answer; its headers then count as unused, and only then
  // `now` matters.
  void OnCallOver(bool early, Clock::time_point now);

  // The acceptor's thread only: looks how many bytes the connection has received, and cuts it when too many were
  // unused.
  void CheckBytes(Clock::time_point now);
  // The acceptor's thread only: the connection is over. The descriptor is closed.
  void Close();
  int watched() const { return watched_; }
  bool is_closed() const;
  // Calls `use` with the connection's descriptor, which stays open meanwhile. Does nothing when the connection is over.
  void WithSocket(const std::function<void(int socket)>& use) const;

 private:
  // Whether the other end has closed: all its calls end as if it had cancelled them. REQUIRES: mu_.
  bool IsLeaving() const;
  // How many bytes have come so far, read or not; -1: not known.
  int64_t BytesThatCame() const;
  // How many of them may belong to no message that was read.
  int64_t MostUnused() const;

  const CallBudget budget_;
  Observer* const observer_;
  std::atomic<bool> cut_ = false;
  std::atomic<int> open_calls_ = 0;
  std::atomic<int64_t> used_bytes_ = 0;

  mutable std::mutex mu_;
  int watched_;              // guarded by mu_, written by the acceptor's thread; -1: closed
  RateLimit early_cancels_;  // guarded by mu_

  ByteDebt debt_;  // the acceptor's thread only
};

}  // namespace distlock::acceptor
