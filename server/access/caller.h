// SPDX-License-Identifier: Apache-2.0
//
// Callers. PeerFacts is what the edges have proven of a connection, and the proof that one call carries; Identify makes
// a Caller of it. Values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace distlock::access {

// The process at the other end of a unix socket, as the kernel names it.
struct UnixPeer {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // supplementary
};

// The other end of the connection that gRPC names so; nullopt: it is no unix socket, or the connection is gone. Any
// thread.
using UnixPeerOf = std::function<std::optional<UnixPeer>(std::string_view grpc_peer)>;

// From a client certificate whose chain was verified.
struct TlsPeer {
  std::vector<std::string> uris;  // its URI SANs
  std::vector<std::string> dns;   // its DNS SANs
  int64_t not_after_s = 0;        // Unix time
};

struct PeerFacts {
  std::string peer;                        // as gRPC names it, for the audit log
  bool known = true;                       // false: the connection is gone, and nothing can be said of it
  std::optional<UnixPeer> unix_peer;       // unset: no unix socket, or the kernel's word is not at hand
  std::optional<TlsPeer> tls;              // unset: no client certificate
  bool keeps_secrets = false;              // what is sent stays on this machine, or is encrypted
  std::vector<std::string> authorization;  // values of the call's metadata `authorization`
};

// The kinds in order of strength: the strongest names the caller.
enum class Kind : uint8_t { kJwt, kK8s, kToken, kSpiffe, kDns, kUid, kGid };

// A proven fact about a caller. `text` is its full form: "spiffe://td/path", "k8s:NS/SA", "dns:name", "uid:0", "gid:0",
// "token:NAME", "jwt:ISS|SUB".
struct Principal {
  Kind kind = Kind::kUid;
  std::string text;
  friend bool operator==(const Principal&, const Principal&) = default;
};

using Digest = std::array<uint8_t, 32>;  // SHA-256

struct Caller {
  std::vector<Principal> principals;                            // strongest first; empty: anonymous
  std::string name;                                             // of the strongest; "anonymous" without any
  std::string peer;                                             // PeerFacts::peer
  std::optional<Digest> token;                                  // of the static token it has shown
  std::optional<Digest> jwt_key;                                // that has verified the JSON web token it has shown
  int64_t proof_until_s = std::numeric_limits<int64_t>::max();  // Unix time; when the first of its proofs ends
  // From then on it may take nothing new. A token counts for the leeway longer.
  int64_t proof_over_s = std::numeric_limits<int64_t>::max();

  bool anonymous() const { return principals.empty(); }
};

}  // namespace distlock::access
