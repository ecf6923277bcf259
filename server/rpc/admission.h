// SPDX-License-Identifier: Apache-2.0
//
// Who may come in, and who is in: the gate of the gRPC side. It refuses new work while draining and bounds the
// streams in all and per peer.
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

namespace distlock::rpc {

// A Hold, Session or WatchLock that is open.
class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // The server is about to stop: end with DRAINING. Any thread; does nothing on a stream that has ended.
  virtual void Stop() = 0;
  // For operators. Any thread.
  virtual v1::SessionInfo Describe() = 0;
};

// The part of a gRPC peer that is the same for all its connections: the host. All users of a unix socket are one peer,
// since gRPC does not tell them apart.
std::string PeerHost(const std::string& peer);

class Admission {
 public:
  explicit Admission(const contract::Limits& limits) : limits_(limits) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // nullopt: `stream` counts until Leave(peer, id).
  std::optional<v1::Refusal> Admit(const std::string& peer, uint64_t id, std::weak_ptr<OpenStream> stream);
  void Leave(const std::string& peer, uint64_t id);

  void Drain() { draining_.store(true, std::memory_order_relaxed); }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  size_t streams() const;

  // At most `count` open streams with ids above `after`, by id, which is the order of their coming.
  std::vector<std::pair<uint64_t, std::shared_ptr<OpenStream>>> StreamsAfter(uint64_t after, size_t count) const;

  void StopStreams();

 private:
  // Constant after construction.
  const contract::Limits& limits_;

  std::atomic<bool> draining_ = false;

  // Guarded by mu_.
  mutable std::mutex mu_;
  absl::flat_hash_map<uint64_t, std::weak_ptr<OpenStream>> streams_;
  absl::flat_hash_map<std::string, size_t> per_peer_;
};

}  // namespace distlock::rpc
