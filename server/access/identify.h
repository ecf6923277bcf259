// SPDX-License-Identifier: Apache-2.0
//
// From what is proven of a peer to the principals that a policy speaks of. A proof that is wrong is an error: nobody
// becomes anonymous by a bad token. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "access/caller.h"
#include "access/jwt.h"
#include "access/tokens.h"

namespace distlock::access {

// Proofs are checked against these. Null: this kind of proof is not taken.
struct Proofs {
  const Tokens* tokens = nullptr;
  const JwtKeys* jwt = nullptr;
  std::optional<JwtClaims> known;  // of the JSON web token that the facts show, if `jwt` has verified it before
  const std::vector<std::string>* trust_domains = nullptr;  // null: every trust domain counts
};

// Unauthenticated: which proof is wrong, and why. The proof itself is never repeated. `verified` may be null; it gets
// the claims of a JSON web token whose signature was verified, also when something else is wrong.
absl::StatusOr<Caller> Identify(const PeerFacts& facts, const Proofs& proofs, int64_t now_s,
                                std::optional<JwtClaims>* verified = nullptr);

// For CheckAccess: whoever has proven to be these principals. Sets the name.
Caller CallerOf(std::vector<Principal> principals, std::string peer);

}  // namespace distlock::access
