// SPDX-License-Identifier: Apache-2.0
//
// SPIFFE ids, by the SPIFFE ID specification (https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md). Pure.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace distlock::access {

// Views into the text that was parsed.
struct SpiffeId {
  std::string_view trust_domain;
  std::vector<std::string_view> segments;  // of the path; empty: the id of the trust domain itself
};

// Accepts exactly the well-formed ids: lower-case scheme and trust domain, no port, user, query, fragment or percent
// sign, no empty segment and no "." or "..", at most 2048 bytes.
std::optional<SpiffeId> ParseSpiffeId(std::string_view text);

// [a-z0-9._-]{1,255}
bool IsTrustDomain(std::string_view text);

}  // namespace distlock::access
