// SPDX-License-Identifier: Apache-2.0
#include "distlock/wire/utf8.h"

#include <cstdint>

namespace distlock::wire {

size_t CharacterLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t head = byte(0);
  if (head < 0x80) return 1;
  const size_t length = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;
  if (head < 0xc2 || head > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (head == 0xe0 && byte(1) < 0xa0) || (head == 0xf0 && byte(1) < 0x90);
  const bool surrogate = head == 0xed && byte(1) > 0x9f;
  const bool too_big = head == 0xf4 && byte(1) > 0x8f;
  return overlong || surrogate || too_big ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace distlock::wire
