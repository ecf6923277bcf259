// SPDX-License-Identifier: Apache-2.0
#include "contract/utf8.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "distlock/wire/utf8.h"

namespace distlock::contract {
namespace {

// The last boundary between two characters at or before `end`, which is inside of `text`.
size_t EdgeBefore(std::string_view text, size_t end) {
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

}  // namespace

std::string CleanText(std::string_view text) {
  std::string clean(text);
  for (size_t i = 0; i < clean.size();) {
    const size_t length = wire::CharacterLength(std::string_view(clean).substr(i));
    if (length == 0) clean[i] = '?';
    i += length == 0 ? 1 : length;
  }
  return clean;
}

std::string Cut(std::string_view text, size_t max_bytes) {
  constexpr std::string_view kMore = "...";
  if (text.size() <= max_bytes) return std::string(text);
  return std::string(text.substr(0, EdgeBefore(text, max_bytes - kMore.size()))).append(kMore);
}

std::string Shorten(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return absl::Utf8SafeCEscape(std::string(text));
  return absl::Utf8SafeCEscape(std::string(text.substr(0, EdgeBefore(text, max_bytes)))) + "...";
}

}  // namespace distlock::contract
