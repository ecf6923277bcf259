// SPDX-License-Identifier: Apache-2.0
//
// Reads text as std::string_view, and brings the functions of text/text.h into this module. Pure; any thread.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "text/text.h"

namespace distlock::store {

using text::Append;
using text::Cat;
using text::Contains;
using text::Split;

inline std::string_view View(absl::string_view text) { return {text.data(), text.size()}; }

// The text before and after the first separator; all and nothing when there is none.
inline std::pair<std::string_view, std::string_view> Cut(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

inline std::string Join(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) Append(out, i == 0 ? std::string_view() : between, parts[i]);
  return out;
}

// The value of a hexadecimal digit; -1: it is none.
constexpr int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// False unless all of `text` is one decimal number.
inline bool ReadInt(std::string_view text, int* value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), *value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && !text.empty();
}

}  // namespace distlock::store
