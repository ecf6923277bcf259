// SPDX-License-Identifier: Apache-2.0
//
// Proofs of identity: SPIFFE ids, token files, key sets, and the claims of JSON web tokens. No text crashes a reader,
// and what is accepted has the form that the policy relies on.
#include "access/identify.h"
#include "access/pattern_text.h"
#include "access/spiffe.h"
#include "bytes.h"
#include "core/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace distlock::access;
  distlock::fuzz::Bytes bytes(data, size);
  switch (bytes.Below(5)) {
    case 0: {
      const std::string_view text = bytes.Rest();
      if (const auto id = ParseSpiffeId(text)) {
        DISTLOCK_CHECK(IsTrustDomain(id->trust_domain));
        for (const std::string_view one : id->segments) {
          DISTLOCK_CHECK(!one.empty() && one.find_first_of("/:*{") == one.npos);
        }
        DISTLOCK_CHECK(ParsePrincipal(text).has_value());
      }
      break;
    }
    case 1: {
      const auto tokens = Tokens::Parse(bytes.Rest(), "file");
      if (tokens.ok()) tokens->NameOf(Sha256("x"));
      break;
    }
    case 2: {
      const auto keys = JwtKeys::Parse(bytes.Rest(), "file", "iss", "aud");
      if (keys.ok()) (*keys)->Verify("a.b.c", 0).IgnoreError();
      break;
    }
    case 3: {
      const auto claims = CheckClaims(bytes.Rest(), "iss", "aud", 1'700'000'000);
      DISTLOCK_CHECK(!claims.ok() || !claims->subject.empty());
      break;
    }
    default: {
      PeerFacts facts{.peer = "p", .keeps_secrets = true};
      facts.tls = TlsPeer{{std::string(bytes.Text())}, {std::string(bytes.Text())}, 1'800'000'000};
      if (bytes.Flag()) facts.tls->uris.clear();
      const Tokens none;
      const auto caller = Identify(facts, {.tokens = &none}, 1'700'000'000);
      DISTLOCK_CHECK(caller.ok() && caller->principals.size() <= 1);
      for (const Principal& one : caller->principals) DISTLOCK_CHECK(ParsePrincipal(one.text).has_value());
      break;
    }
  }
  return 0;
}
