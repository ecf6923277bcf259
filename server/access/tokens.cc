// SPDX-License-Identifier: Apache-2.0
#include "access/tokens.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "access/pattern_text.h"
#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string Bytes(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

std::optional<Digest> FromHex(std::string_view text) {
  Digest digest;
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != 2 * digest.size() || !std::all_of(text.begin(), text.end(), is_hex)) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes(View(text));
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

}  // namespace

Digest Sha256(std::string_view text) {
  Digest digest;
  // Fails only when memory or the library is broken.
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) std::abort();
  return digest;
}

std::string TokenOf(const Digest& random) { return Cat(kTokenHead, absl::WebSafeBase64Escape(Bytes(random))); }

std::string TokenLine(std::string_view name, std::string_view token) {
  return Cat(name, ":", absl::BytesToHexString(Bytes(Sha256(token))));
}

absl::StatusOr<Tokens> Tokens::Parse(std::string_view text, std::string_view file) {
  if (text.size() > kMostTokenFileBytes) {
    return absl::InvalidArgumentError(Cat(file, ": has more than ", kMostTokenFileBytes, " bytes"));
  }
  Tokens tokens;
  int number = 0;
  for (std::string_view line : text::Split(text, "\n")) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const auto bad = [&](std::string_view why) {
      return absl::InvalidArgumentError(Cat(file, ":", number, ": ", why));
    };
    const size_t colon = line.find(':');
    if (colon == line.npos) return bad("is not of the form name:sha256; distlockctl token new NAME prints such a line");
    const std::string_view name = line.substr(0, colon);
    if (!IsName(name)) return bad("has no valid name; use 1..64 letters, digits, dots, - and _");
    const auto digest = FromHex(line.substr(colon + 1));
    if (!digest) return bad("has no SHA-256 in 64 lower-case hex digits; the token itself does not belong in the file");
    const auto [entry, is_new] = tokens.names_.try_emplace(*digest, name);
    if (!is_new && entry->second != name) return bad("repeats the token of another name");
  }
  return tokens;
}

std::optional<std::string_view> Tokens::NameOf(const Digest& hash) const {
  const auto found = names_.find(hash);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

}  // namespace distlock::access
