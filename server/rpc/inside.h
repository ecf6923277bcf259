// SPDX-License-Identifier: Apache-2.0
//
// Callers inside this process, such as the HTTP face, which call for somebody else. They say by metadata for whom, and
// prove by a secret of this process that they may. The caller's own proof, a bearer token, travels beside it.
//
// Thread: any. An Inside belongs to the Frontend; Open comes before the first such call.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "acceptor/connection.h"
#include "access/caller.h"

namespace grpc {
class Channel;
class ClientContext;
class ServerContext;
}  // namespace grpc

namespace distlock::rpc {

class Inside {
 public:
  Inside() = default;
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  // Such callers are believed from now on. `secret`: of 16 random bytes or more.
  void Open(std::string secret);

  // `connection`: null for a caller in this process, and for one whose connection is gone.
  bool IsInside(const grpc::ServerContext& context, const acceptor::Connection* connection) const;
  // For all other calls, whose `connection` may be null, these say what the acceptor does: the name of the peer for
  // people, how it is connected (nullopt: not known), and what FactsOf of callers.h says.
  std::string PeerOf(const grpc::ServerContext& context, const acceptor::Connection* connection) const;
  // The peer counted for the caller: as acceptor::Connection::peer, or a name that PeerHost takes.
  std::string CountedPeerOf(const grpc::ServerContext& context, const acceptor::Connection* connection) const;
  std::optional<acceptor::Kind> KindOf(const grpc::ServerContext& context,
                                       const acceptor::Connection* connection) const;
  access::PeerFacts FactsOf(const grpc::ServerContext& context, const acceptor::Connection* connection,
                            const access::UnixPeerOf& unix_peer_of) const;

 private:
  std::string secret_;
  std::atomic<bool> open_ = false;
};

// A pass for such a caller.
struct InsidePass {
  std::shared_ptr<grpc::Channel> channel;  // to the server of this process
  std::string secret;

  // Says for whom the call is. Of `facts`, `tls` is not said.
  void Sign(const access::PeerFacts& facts, grpc::ClientContext* context) const;
};

}  // namespace distlock::rpc
