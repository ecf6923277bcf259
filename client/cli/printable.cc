// SPDX-License-Identifier: Apache-2.0
#include "printable.h"

#include <absl/strings/str_format.h>
#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include "distlock/wire/utf8.h"

namespace distlock::cli {
namespace {

struct Span {
  char32_t first;
  char32_t last;
};

// Unicode characters that show nothing, or turn the direction of the text around them.
constexpr Span kUnseen[] = {
    {0x00ad, 0x00ad},    // soft hyphen
    {0x034f, 0x034f},    // combining grapheme joiner
    {0x061c, 0x061c},    // Arabic letter mark
    {0x115f, 0x1160},    // Hangul fillers
    {0x17b4, 0x17b5},    // Khmer inherent vowels
    {0x180b, 0x180f},    // Mongolian selectors and vowel separator
    {0x200b, 0x200f},    // zero width space, joiners, marks of direction
    {0x2028, 0x202e},    // line and paragraph separator, embeddings and overrides of direction
    {0x2060, 0x206f},    // word joiner, invisible operators, isolates of direction
    {0x3164, 0x3164},    // Hangul filler
    {0xfeff, 0xfeff},    // byte order mark
    {0xffa0, 0xffa0},    // halfwidth Hangul filler
    {0xfff9, 0xfffb},    // interlinear annotation
    {0xe0000, 0xe0fff},  // tags and selectors
};

// REQUIRES: `bytes` is one character of UTF-8.
char32_t CodePoint(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[i])); };
  if (bytes.size() == 1) return byte(0);
  char32_t code = byte(0) & (0xffU >> (bytes.size() + 1));
  for (size_t i = 1; i < bytes.size(); ++i) code = code << 6 | (byte(i) & 0x3f);
  return code;
}

// Calls `each` with every character and its bytes; with 0xfffd for a byte that is not UTF-8.
template <typename Each>
void ForEachCharacter(std::string_view text, Each each) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = wire::CharacterLength(text.substr(i));
    const std::string_view bytes = text.substr(i, std::max<size_t>(length, 1));
    each(length == 0 ? char32_t{0xfffd} : CodePoint(bytes), bytes);
    i += bytes.size();
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCharacter(text, [&](char32_t code, std::string_view bytes) {
    const bool control = code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code == 0xfffd && bytes.size() == 1);
    const bool unseen =
        std::ranges::any_of(kUnseen, [&](const Span& span) { return code >= span.first && code <= span.last; });
    if (control) {
      out += '?';
    } else if (unseen) {
      out += absl::StrFormat("<U+%04X>", static_cast<uint32_t>(code));
    } else {
      out += bytes;
    }
  });
  return out;
}

size_t DisplayWidth(std::string_view text) {
  // Not the user's locale, in which another encoding may be set: the text is UTF-8.
  static const locale_t utf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  const locale_t before = utf8 == nullptr ? nullptr : ::uselocale(utf8);
  size_t width = 0;
  ForEachCharacter(text, [&](char32_t code, std::string_view) {
    const int columns = utf8 == nullptr ? 1 : ::wcwidth(static_cast<wchar_t>(code));
    width += columns < 0 ? 1 : static_cast<size_t>(columns);
  });
  if (before != nullptr) ::uselocale(before);
  return width;
}

std::string Column(std::string_view text, size_t width) {
  std::string out = Printable(text);
  const size_t shown = DisplayWidth(out);
  if (shown < width) out.append(width - shown, ' ');
  return out;
}

}  // namespace distlock::cli
