// SPDX-License-Identifier: Apache-2.0
#include "access/identify.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "access/pattern_text.h"
#include "access/spiffe.h"
#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;

constexpr std::string_view kBearer = "bearer ";
// The uid of everybody who has none in our user namespace (/proc/sys/kernel/overflowuid).
constexpr uint32_t kOverflowId = 65534;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), Lower);
  return lower;
}

absl::Status Wrong(std::string_view why) { return absl::UnauthenticatedError(Cat("authorization: ", why)); }

bool IsTrusted(std::string_view domain, const Proofs& proofs) {
  const auto* const domains = proofs.trust_domains;
  return domains == nullptr || std::find(domains->begin(), domains->end(), domain) != domains->end();
}

std::optional<Principal> SpiffeOf(std::string_view text, const Proofs& proofs) {
  const auto id = ParseSpiffeId(text);
  if (!id || !IsTrusted(id->trust_domain, proofs)) return std::nullopt;
  return Principal{.kind = Kind::kSpiffe, .text = std::string(text)};
}

// Exactly one URI that is a SPIFFE id of a trusted domain; DNS names count only where there is no URI at all, so that
// who is refused by one does not come in by the other. The common name never counts.
void AddCertificate(const TlsPeer& tls, const Proofs& proofs, std::vector<Principal>* out) {
  if (!tls.uris.empty()) {
    auto spiffe = tls.uris.size() == 1 ? SpiffeOf(tls.uris.front(), proofs) : std::nullopt;
    if (spiffe) out->push_back(*std::move(spiffe));
    return;
  }
  for (const std::string& name : tls.dns) {
    auto principal = ParsePrincipal(Cat(HeadOf(Kind::kDns), LowerCase(name)));
    if (principal) out->push_back(*std::move(principal));
  }
}

void AddUnix(const UnixPeer& peer, std::vector<Principal>* out) {
  if (peer.uid != kOverflowId) out->push_back({Kind::kUid, Cat(HeadOf(Kind::kUid), peer.uid)});
  std::vector<uint32_t> groups = peer.groups;
  groups.insert(groups.begin(), peer.gid);
  for (size_t i = 0; i < groups.size(); ++i) {
    const bool is_repeated = std::find(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(i), groups[i]) !=
                             groups.begin() + static_cast<std::ptrdiff_t>(i);
    if (groups[i] == kOverflowId || is_repeated) continue;
    out->push_back({Kind::kGid, Cat(HeadOf(Kind::kGid), groups[i])});
  }
}

absl::StatusOr<Principal> SubjectOf(const JwtClaims& claims, const Proofs& proofs) {
  const std::string& subject = claims.subject;
  if (subject.starts_with(kServiceAccount)) {
    const std::vector<std::string_view> parts =
        text::Split(std::string_view(subject).substr(kServiceAccount.size()), ":");
    auto account = parts.size() == 2 ? ParsePrincipal(Cat(HeadOf(Kind::kK8s), parts[0], "/", parts[1])) : std::nullopt;
    if (!account) return Wrong("the JSON web token names a service account that cannot be");
    return *std::move(account);
  }
  if (subject.starts_with(HeadOf(Kind::kSpiffe))) {
    auto spiffe = SpiffeOf(subject, proofs);
    if (!spiffe) return Wrong("the JSON web token names no SPIFFE id of a trusted domain (trust_domains)");
    return *std::move(spiffe);
  }
  return Principal{.kind = Kind::kJwt, .text = Cat(HeadOf(Kind::kJwt), proofs.jwt->issuer(), "|", subject)};
}

absl::StatusOr<Principal> JwtOf(std::string_view token, const Proofs& proofs, int64_t now_s, Caller* caller,
                                std::optional<JwtClaims>* verified) {
  std::optional<JwtClaims> claims = proofs.known;
  if (!claims) {
    auto checked = proofs.jwt->Verify(token, now_s);
    if (!checked.ok()) return checked.status();
    claims = *std::move(checked);
    if (verified != nullptr) *verified = claims;
  }
  caller->jwt_key = claims->key;
  caller->proof_until_s = std::min(caller->proof_until_s, claims->expires_s);
  caller->proof_over_s = std::min(caller->proof_over_s, claims->expires_s + kJwtLeewayS);
  return SubjectOf(*claims, proofs);
}

absl::StatusOr<Principal> BearerOf(const PeerFacts& facts, const Proofs& proofs, int64_t now_s, Caller* caller,
                                   std::optional<JwtClaims>* verified) {
  if (facts.authorization.size() > 1) return Wrong("came more than once; send one bearer token");
  const std::string_view header = facts.authorization.front();
  if (LowerCase(header.substr(0, kBearer.size())) != kBearer) return Wrong("is no bearer token");
  if (!facts.keeps_secrets) {
    return Wrong(
        "a token came in plain text from another machine, so it counts for nothing and is not secret any more:"
        " use TLS, and replace the token");
  }
  const std::string_view token = header.substr(kBearer.size());
  if (token.starts_with(kTokenHead)) {
    if (proofs.tokens == nullptr) return Wrong("this broker takes no static tokens (--token-file)");
    const Digest hash = Sha256(token);
    const auto name = proofs.tokens->NameOf(hash);
    if (!name) return Wrong("the token is not known here: it was withdrawn, or is for another broker");
    caller->token = hash;
    return Principal{.kind = Kind::kToken, .text = Cat(HeadOf(Kind::kToken), *name)};
  }
  if (std::ranges::count(token, '.') != 2) {
    return Wrong(Cat("is no token of this service: static ones (--token-file) begin with ", kTokenHead,
                     ", JSON web tokens have three parts"));
  }
  if (proofs.jwt == nullptr) return Wrong("this broker takes no JSON web tokens (--jwt-keys)");
  return JwtOf(token, proofs, now_s, caller, verified);
}

}  // namespace

absl::StatusOr<Caller> Identify(const PeerFacts& facts, const Proofs& proofs, int64_t now_s,
                                std::optional<JwtClaims>* verified) {
  if (!facts.known) return absl::UnauthenticatedError("the connection has ended, so nothing proves who called");
  Caller caller;
  std::vector<Principal> principals;
  if (!facts.authorization.empty()) {
    auto bearer = BearerOf(facts, proofs, now_s, &caller, verified);
    if (!bearer.ok()) return bearer.status();
    principals.push_back(*std::move(bearer));
  }
  if (facts.tls) {
    if (now_s >= facts.tls->not_after_s) {
      return absl::UnauthenticatedError("the client certificate has expired; connect with a new one");
    }
    caller.proof_until_s = std::min(caller.proof_until_s, facts.tls->not_after_s);
    caller.proof_over_s = std::min(caller.proof_over_s, facts.tls->not_after_s);
    AddCertificate(*facts.tls, proofs, &principals);
  }
  if (facts.unix_peer) AddUnix(*facts.unix_peer, &principals);
  Caller named = CallerOf(std::move(principals), facts.peer);
  caller.principals = std::move(named.principals);
  caller.name = std::move(named.name);
  caller.peer = std::move(named.peer);
  return caller;
}

Caller CallerOf(std::vector<Principal> principals, std::string peer) {
  Caller caller;
  std::stable_sort(principals.begin(), principals.end(),
                   [](const Principal& a, const Principal& b) { return a.kind < b.kind; });
  caller.name = principals.empty() ? "anonymous" : principals.front().text;
  caller.principals = std::move(principals);
  caller.peer = std::move(peer);
  return caller;
}

}  // namespace distlock::access
