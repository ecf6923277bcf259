// SPDX-License-Identifier: Apache-2.0
//
// What gRPC knows of a call's peer, as facts for server/access. Any thread; read once, when the call arrives, because
// gRPC forgets the peer when the connection ends.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <optional>

#include "access/caller.h"

namespace distlock::rpc {

// `unix_peer_of` may be empty: then nobody has a uid.
access::PeerFacts FactsOf(const grpc::ServerContext& context, const access::UnixPeerOf& unix_peer_of);

// Of a connection whose client certificate was verified; nullopt: there is none.
std::optional<access::TlsPeer> TlsPeerOf(const grpc::AuthContext& auth);

}  // namespace distlock::rpc
