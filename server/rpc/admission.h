// SPDX-License-Identifier: Apache-2.0
//
// Admits streams and Acquire calls, and keeps the list of open streams. It refuses new streams while draining, and
// bounds the streams and the waiting Acquire calls, in total and per peer.
//
// Thread: every method on any thread. Outlives every call.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "contract/limits.h"
#include "core/types.h"
#include "distlock/v1/admin_service.pb.h"
#include "distlock/v1/lock.pb.h"
#include "rpc/rate_limit.h"

namespace distlock::rpc {

// An open Hold, Session, WatchLock or WatchLocks, for ListSessions and for the end of the server.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // The server is about to stop: ends the stream with DRAINING. Any thread; does nothing on a stream that has ended.
  virtual void Stop() = 0;
  // The policy has changed: ends the stream if its caller may not have it any more. Any thread.
  virtual void Review() = 0;
  // The stream's row of ListSessions. Any thread.
  virtual v1::SessionInfo Describe() = 0;
};

// The counted peer: the part of a caller's address that is the same for all its connections. An IP address, an IPv6
// network as acceptor::Connection::peer names it, or the user of a unix socket.
std::string PeerHost(const std::string& peer);

// The use that the streams of one peer make of the broker together. Any thread.
struct PeerUse {
  std::atomic<int> streams = 0;        // that may hold locks
  std::atomic<int64_t> unwritten = 0;  // bytes that wait to be written to them
};

class Admission {
 public:
  explicit Admission(const contract::Limits& limits) : limits_(limits) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // nullopt: `stream` counts until Leave(peer, id). `watch`: it takes no locks, and is counted apart from those that
  // do.
  std::optional<v1::Refusal> Admit(const std::string& peer, uint64_t id, std::weak_ptr<OpenStream> stream,
                                   bool watch = false);
  void Leave(const std::string& peer, uint64_t id);
  // Never null. Lives on for as long as it is kept, also when the peer has left.
  std::shared_ptr<PeerUse> UseOf(const std::string& peer);
  // Bytes that wait to be written to all streams.
  std::atomic<int64_t>& unwritten() { return unwritten_; }
  int64_t unwritten_bytes() const { return unwritten_; }

  // nullopt: a WatchLocks, which counts as a stream, too, counts until LeavePrefixWatch.
  std::optional<v1::Refusal> AdmitPrefixWatch();
  void LeavePrefixWatch();

  // nullopt: an Acquire call of `peer` counts until LeaveCall(peer). Does not check for draining.
  std::optional<v1::Refusal> AdmitCall(const std::string& peer, core::Instant now);
  void LeaveCall(const std::string& peer, core::Instant now);

  void Drain() { draining_.store(true, std::memory_order_relaxed); }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  size_t streams() const;

  // At most `count` open streams with ids above `after`, by id: the oldest come first.
  std::vector<std::pair<uint64_t, std::shared_ptr<OpenStream>>> StreamsAfter(uint64_t after, size_t count) const;

  void StopStreams();

 private:
  struct Stream {
    std::weak_ptr<OpenStream> stream;
    bool watch = false;
  };
  // One host. Its entry is removed when it has no stream and no call, and its rate limit is full again.
  struct Peer {
    std::shared_ptr<PeerUse> use = std::make_shared<PeerUse>();
    size_t watches = 0;
    size_t calls = 0;
    RateLimit rate;
  };
  static constexpr size_t kFirstSweep = 64;

  // Under mu_.
  Peer& PeerOf(const std::string& peer);
  bool IsIdle(Peer& peer, core::Instant now) const;
  void Sweep(core::Instant now);

  // Constant after construction.
  const contract::Limits& limits_;

  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> unwritten_ = 0;

  // Guarded by mu_.
  mutable std::mutex mu_;
  absl::flat_hash_map<uint64_t, Stream> streams_;
  absl::flat_hash_map<std::string, Peer> peers_;  // by PeerHost
  size_t prefix_watches_ = 0;
  size_t calls_ = 0;
  size_t sweep_at_ = kFirstSweep;  // size of peers_
};

}  // namespace distlock::rpc
