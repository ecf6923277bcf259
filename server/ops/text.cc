// SPDX-License-Identifier: Apache-2.0
#include "ops/text.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace distlock::ops {
namespace {

constexpr uint32_t kReplacement = 0xfffd;

struct Decoded {
  uint32_t point = kReplacement;
  size_t length = 1;
};

// One code point of UTF-8; overlong forms, surrogates and stray bytes decode to the replacement, one byte each.
Decoded DecodeFirst(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t head = byte(0);
  if (head < 0x80) return {head, 1};
  const size_t length = head >= 0xf0 ? 4 : head >= 0xe0 ? 3 : 2;
  if (head < 0xc2 || head > 0xf4 || text.size() < length) return {};
  uint32_t point = head & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3fu);
  }
  const uint32_t smallest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (point < smallest || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return {};
  return {point, length};
}

// Control characters, and marks that hide, reorder or break the text after them on a terminal.
bool MustEscape(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || (point >= 0x200b && point <= 0x200f) ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2060 && point <= 0x206f) || point == 0xfeff ||
         point == kReplacement;
}

}  // namespace

std::string JsonQuoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto [point, length] = DecodeFirst(text);
    if (point == '"' || point == '\\') {
      out += {'\\', static_cast<char>(point)};
    } else if (point == '\n') {
      out += "\\n";
    } else if (MustEscape(point)) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", point);
      out += code;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out += '"';
}

std::string WordOrQuoted(std::string_view text) {
  const auto plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > ' ' && byte < 0x7f && byte != '"' && byte != '\\' && byte != '=';
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), plain) ? std::string(text) : JsonQuoted(text);
}

bool IsShowable(std::string_view text) {
  while (!text.empty()) {
    const auto [point, length] = DecodeFirst(text);
    if (MustEscape(point)) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace distlock::ops
