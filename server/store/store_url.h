// SPDX-License-Identifier: Apache-2.0
//
// Where the store is, by URL: which topology, over which transport, at which address. The schemes:
//   redis://[user[:password]@]host[:port][/db]
//   rediss://...   over TLS, with ?ca=FILE &cert=FILE &key=FILE &sni=NAME
//   unix:///path[?db=N]   (user and password as above, before the path)
// The schemes of topologies that this version does not serve are known and refused by name. Values; any thread.
// Masked() shows no password, and an error shows no part of the text.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::store {

// Where one server listens: a host and a port, or a unix socket.
struct ServerAddress {
  std::string host;  // an IPv6 address without brackets; "" with a path
  int port = 6379;
  std::string path;  // of a unix socket

  bool operator==(const ServerAddress&) const = default;
};

struct TlsFiles {
  std::string ca;    // "" = the system's authorities
  std::string cert;  // client certificate chain, PEM; with `key`
  std::string key;
  std::string sni;  // the name to ask for and to verify; "" = the host
};

struct StoreUrl {
  enum class Topology { kSingle };
  enum class Transport { kTcp, kTls, kUnix };
  Topology topology = Topology::kSingle;
  Transport transport = Transport::kTcp;
  ServerAddress address;
  int db = 0;
  std::string user;      // "" = the server's default user
  std::string password;  // "" = none
  TlsFiles tls;          // kTls

  std::string Masked() const;
};

// InvalidArgument when it is malformed, Unimplemented for a topology that this version does not serve.
absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view text);

}  // namespace distlock::store
