// SPDX-License-Identifier: Apache-2.0
//
// The connections, by the names that gRPC gives them, and what each peer has used up. Thread: as each method says.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "acceptor/connection.h"
#include "acceptor/rate_limit.h"
#include "peer/names.h"
#include "peer/shares.h"

namespace distlock::acceptor {

using peer::AddressText;
using peer::PeerText;

// The text of AddressText for a gRPC peer such as "ipv6:%5B::1%5D:40000".
std::string CanonicalPeer(std::string_view grpc_peer);
// The process at the other end of a unix socket. An overflow uid (nobody's, of a foreign user namespace) is none.
std::optional<Credentials> CredentialsOf(int fd);

struct PeerLimits {
  size_t connections = 1'000;
  double connections_per_second = 200;  // new ones; as many at once as `connections`
  double handshakes_per_second = 20;    // twice as many at once
};

class Peers {
 public:
  explicit Peers(const PeerLimits& limits) : limits_(limits), connections_(limits.connections) {}

  // The connection of a call, by grpc::ServerContext::peer(). Null: gone, or not from the acceptor. Any thread.
  std::shared_ptr<Connection> Find(std::string_view grpc_peer) const;

  // The rest: the acceptor's thread only.
  // `name`: "fd:9" or AddressText. The newest connection of a name is meant by it.
  void Show(const std::string& name, std::shared_ptr<Connection> connection);
  void Hide(const std::string& name, uint64_t id);

  // Counts a connection of `peer` until Leave. A cause: it may not have one more.
  std::optional<RefuseCause> Enter(const std::string& peer, Clock::time_point now);
  void Leave(const std::string& peer, Clock::time_point now);
  // Whether the peer may have a new connection handed over now. Takes of its limits if so.
  bool MayPass(const std::string& peer, bool handshake, RateLimit& all_handshakes, Clock::time_point now);
  // One of its connections was cut.
  void Punish(const std::string& peer, Clock::time_point now);

  size_t known() const { return counted_.size(); }

 private:
  struct Peer {
    RateLimit fresh;
    RateLimit handshakes;
    RateLimit cuts;
    Clock::time_point shut_until{};
    Clock::time_point calm_at{};  // new ones wait until then
  };
  Peer& Of(const std::string& peer);
  void Sweep(Clock::time_point now);

  const PeerLimits limits_;
  peer::Shares connections_;
  absl::flat_hash_map<std::string, Peer> counted_;
  size_t sweep_at_ = 1'024;

  mutable std::mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<Connection>> shown_;  // guarded by mu_
};

}  // namespace distlock::acceptor
