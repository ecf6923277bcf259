// SPDX-License-Identifier: Apache-2.0
//
// JSON web tokens, checked offline against a JSON web key set: service account tokens of Kubernetes, JWT-SVIDs of
// SPIFFE, and what any OIDC issuer signs. RS256, ES256 and PS256 only. There is no revocation: a token counts until it
// expires, or its key is taken out of the set.
//
// JwtKeys is constant once read; any thread. JwtCache is not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "access/caller.h"

namespace distlock::access {

inline constexpr size_t kMostJwtBytes = 8 << 10;
inline constexpr size_t kMostJwksBytes = 1 << 20;
inline constexpr int64_t kJwtLeewayS = 60;  // how far the issuer's clock and ours may differ

struct JwtClaims {
  std::string subject;
  int64_t expires_s = 0;  // Unix time
  Digest key{};           // of the key set, that verified it
};

class JwtKeys {
 public:
  // `jwks`: the key set; `issuer` and `audience`: what tokens must name. `file` is for messages,
  // which show nothing of the set. A set that could verify nothing is refused, and one with a key that proves nothing:
  // RSA below 2048 bits.
  static absl::StatusOr<std::shared_ptr<const JwtKeys>> Parse(std::string_view jwks, std::string_view file,
                                                              std::string issuer, std::string audience);
  ~JwtKeys();
  JwtKeys(const JwtKeys&) = delete;
  JwtKeys& operator=(const JwtKeys&) = delete;

  // Unauthenticated: what is wrong with the token, which is never repeated.
  absl::StatusOr<JwtClaims> Verify(std::string_view token, int64_t now_s) const;

  // Whether the key that has verified a token is in the set.
  bool Has(const Digest& key) const;

  const std::string& issuer() const { return issuer_; }

 private:
  struct Keys;
  JwtKeys(std::unique_ptr<Keys> keys, std::string issuer, std::string audience);

  const std::unique_ptr<Keys> keys_;
  const std::string issuer_;
  const std::string audience_;
};

// The claims of a verified token, whose text was `payload`, checked against the clock and what tokens must name.
absl::StatusOr<JwtClaims> CheckClaims(std::string_view payload, std::string_view issuer, std::string_view audience,
                                      int64_t now_s);

// Tokens whose signature was verified, by the hash of what showed them, until they count no more.
class JwtCache {
 public:
  std::optional<JwtClaims> Find(const Digest& token, int64_t now_s) const;
  void Add(const Digest& token, const JwtClaims& claims, int64_t now_s);
  void Clear() { known_.clear(); }

 private:
  static constexpr size_t kMost = 10'000;
  absl::flat_hash_map<Digest, JwtClaims> known_;
};

}  // namespace distlock::access
