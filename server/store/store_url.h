// SPDX-License-Identifier: Apache-2.0
//
// Where the store is, by URL: which topology, over which transport, at which address. The schemes:
//   redis://[user[:password]@]host[:port][/db]
//   rediss://...   over TLS, with ?ca=FILE &cert=FILE &key=FILE &sni=NAME
//   unix:///path[?db=N]   (user and password as above, before the path)
//   redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/name[/db]
//   rediss+sentinel://...   the store over TLS as with rediss://, and the sentinels, too
//   redis+cluster://[user[:password]@]host[:port][,host[:port]...]   some of its nodes, of any role
//   rediss+cluster://...   over TLS, with the parameters of rediss://
//   redlock://[user[:password]@]host[:port],host[:port],host[:port][,...][/db]   3, 5, 7 or 9 independent servers
//   redlocks://...   the same over TLS, as with rediss://
// The addresses of redis+sentinel are the sentinels' (default port 26379), user and password the store's. Both kinds
// know ?sentinel_tls=on|off and, with it on, &sentinel_ca= &sentinel_cert= &sentinel_key= &sentinel_sni=, apart from
// the store's files.
// The schemes of topologies that this version does not serve are known and refused by name. Values; any thread.
// Masked() shows no password, and an error shows no part of the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace distlock::store {

inline constexpr int kSentinelPort = 26379;
inline constexpr size_t kMaxAddresses = 16;
// For a quorum.
inline constexpr size_t kMinServers = 3;
inline constexpr size_t kMaxServers = 9;

// Where one server listens: a host and a port, or a unix socket.
struct ServerAddress {
  std::string host;  // an IPv6 address without brackets; "" with a path
  int port = 6379;
  std::string path;  // of a unix socket

  // host:port, [v6]:port or the path.
  std::string Text() const;

  bool operator==(const ServerAddress&) const = default;
  auto operator<=>(const ServerAddress&) const = default;
};

struct TlsFiles {
  std::string ca;    // "" = the system's authorities
  std::string cert;  // client certificate chain, PEM; with `key`
  std::string key;
  std::string sni;  // the name to ask for and to verify; "" = the host

  bool operator==(const TlsFiles&) const = default;
};

struct StoreUrl {
  enum class Topology { kSingle, kSentinel, kCluster, kQuorum };
  enum class Transport { kTcp, kTls, kUnix };
  Topology topology = Topology::kSingle;
  Transport transport = Transport::kTcp;
  ServerAddress address;                 // kSingle
  std::vector<ServerAddress> sentinels;  // kSentinel: 1..kMaxAddresses, none twice
  std::vector<ServerAddress> servers;    // kQuorum: 3, 5, 7 or 9, none twice
  std::string primary_name;              // kSentinel: as the sentinels call it
  std::vector<ServerAddress> seeds;      // kCluster: 1..kMaxAddresses, none twice
  int db = 0;
  std::string user;      // "" = the server's default user
  std::string password;  // "" = none
  TlsFiles tls;          // kTls
  bool sentinel_tls = false;
  TlsFiles sentinel_tls_files;

  std::string Masked() const;
};

// InvalidArgument when it is malformed, Unimplemented for a topology that this version does not serve.
absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view text);

}  // namespace distlock::store
