// SPDX-License-Identifier: Apache-2.0
//
// Static tokens: a file with one `name:sha256` a line, the hash in hex. A token has 256 random bits, so its plain hash
// reveals nothing, and looking the hash up takes a time that says nothing of the token. Constant once read; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "access/caller.h"

namespace distlock::access {

inline constexpr std::string_view kTokenHead = "dlt_";
inline constexpr size_t kTokenBytes = 32;
inline constexpr size_t kMostTokenFileBytes = 1 << 20;

Digest Sha256(std::string_view text);

// "dlt_" and 32 bytes, which must be random, as base64url.
std::string TokenOf(const Digest& random);
// The line of the token file, without its end.
std::string TokenLine(std::string_view name, std::string_view token);

class Tokens {
 public:
  // Empty lines and lines that begin with # are skipped. A name may have several tokens, so that it can change them
  // without a pause. `file` is for messages, which name the line and never what stands in it.
  static absl::StatusOr<Tokens> Parse(std::string_view text, std::string_view file);

  // The name of the token with this hash; nullopt: there is none.
  std::optional<std::string_view> NameOf(const Digest& hash) const;
  size_t size() const { return names_.size(); }

 private:
  absl::flat_hash_map<Digest, std::string> names_;
};

}  // namespace distlock::access
