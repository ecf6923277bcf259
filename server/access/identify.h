// SPDX-License-Identifier: Apache-2.0
//
// From what is proven of a peer to the principals that a policy speaks of. A proof that is wrong is an error: nobody
// becomes anonymous by a bad token. Pure, but for the cache; any thread that may use the cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "access/caller.h"
#include "access/jwt.h"
#include "access/tokens.h"

namespace distlock::access {

// What proofs are checked against. Null: this kind of proof is not taken.
struct Proofs {
  const Tokens* tokens = nullptr;
  const JwtKeys* jwt = nullptr;
  JwtCache* cache = nullptr;                                // may be null
  const std::vector<std::string>* trust_domains = nullptr;  // null: every trust domain counts
};

// Unauthenticated: which proof is wrong, and why. The proof itself is never repeated.
absl::StatusOr<Caller> Identify(const PeerFacts& facts, const Proofs& proofs, int64_t now_s);

// For CheckAccess: whoever has proven to be these principals. Sets the name.
Caller CallerOf(std::vector<Principal> principals, std::string peer);

}  // namespace distlock::access
