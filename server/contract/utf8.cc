// SPDX-License-Identifier: Apache-2.0
#include "contract/utf8.h"

#include <cstdint>

#include "absl/strings/escaping.h"

namespace distlock::contract {
namespace {

// The length of the first character of `text`; 0 when it does not begin with a character.
size_t CharacterAt(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t head = byte(0);
  if (head < 0x80) return 1;
  const size_t length = head >= 0xc2 && head < 0xe0   ? 2
                        : (head & 0xf0) == 0xe0       ? 3
                        : head >= 0xf0 && head < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (head == 0xe0 && byte(1) < 0xa0) || (head == 0xf0 && byte(1) < 0x90);
  const bool surrogate = head == 0xed && byte(1) >= 0xa0;
  const bool too_big = head == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_big ? 0 : length;
}

// The last boundary between two characters at or before `end`, which is inside of `text`.
size_t EdgeBefore(std::string_view text, size_t end) {
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return end;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterAt(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string CleanText(std::string_view text) {
  std::string clean(text);
  for (size_t i = 0; i < clean.size();) {
    const size_t length = CharacterAt(std::string_view(clean).substr(i));
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
