// SPDX-License-Identifier: Apache-2.0
//
// Where the store is, by URL: which topology, over which transport, at which address. The schemes:
//   redis://[user[:password]@]host[:port][/db]
//   rediss://...   over TLS, with ?ca=FILE &cert=FILE &key=FILE &sni=NAME
//   unix:///path[?db=N]   (user and password as above, before the path)
// The schemes of topologies that this version does not serve are known and refused. Values; any thread. No password appears in Masked(), and no part of the text in an error.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::store {

struct StoreUrl {
  enum class Topology { kSingle };
  enum class Transport { kTcp, kTls, kUnix };
  Topology topology = Topology::kSingle;
  Transport transport = Transport::kTcp;
  std::string host;  // kTcp, kTls; an IPv6 address without brackets
  int port = 6379;
  std::string path;  // kUnix
  int db = 0;
  std::string user;      // "" = the server's default user
  std::string password;  // "" = none

  struct Tls {
    std::string ca;    // "" = the system's authorities
    std::string cert;  // client certificate chain, PEM; with `key`
    std::string key;
    std::string sni;  // the name to ask for and to verify; "" = host
  } tls;

  std::string Masked() const;
};

// InvalidArgument when it is malformed, Unimplemented for a topology that this version does not serve.
absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view text);

}  // namespace distlock::store
