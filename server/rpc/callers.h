// SPDX-License-Identifier: Apache-2.0
//
// The acceptor's and gRPC's knowledge of a call's peer, as facts for server/access. Any thread; read once, when the
// call arrives, because gRPC forgets the peer when the connection ends.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <optional>

#include "acceptor/connection.h"
#include "access/caller.h"

namespace distlock::rpc {

// The metadata in which a call brings a proof of its own.
inline constexpr char kAuthorization[] = "authorization";

// `connection` is the one that the call came on; null: it is gone, and nothing can be said of the caller. Who is behind
// a unix socket is the kernel's word by the acceptor, unless `unix_peer_of` is given.
access::PeerFacts FactsOf(const grpc::ServerContext& context, const acceptor::Connection* connection,
                          const access::UnixPeerOf& unix_peer_of);

// Whether the call brings a proof of its own: a bearer token.
bool CarriesProof(const grpc::ServerContext& context);

// The peer by its verified client certificate; nullopt: there is none.
std::optional<access::TlsPeer> TlsPeerOf(const grpc::AuthContext& auth);

}  // namespace distlock::rpc
