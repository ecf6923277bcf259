// SPDX-License-Identifier: Apache-2.0
//
// Joining, splitting and reading text as std::string_view. (Where absl is built for C++14, as on Debian, its own string
// functions take another string_view.) Pure; any thread.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace distlock::store {

inline std::string_view View(absl::string_view text) { return {text.data(), text.size()}; }

template <typename Part>
void AppendPart(std::string& out, const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    out.append(std::string_view(part));
  } else if constexpr (std::is_same_v<Part, absl::string_view>) {
    out.append(part.data(), part.size());
  } else {
    static_assert(std::is_integral_v<Part> && !std::is_same_v<Part, char> && !std::is_same_v<Part, bool>);
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof(digits), part).ptr);
  }
}

template <typename... Parts>
void Append(std::string& out, const Parts&... parts) {
  (AppendPart(out, parts), ...);
}

template <typename Part>
size_t MostBytes(const Part& part) {
  if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    return std::string_view(part).size();
  } else if constexpr (std::is_same_v<Part, absl::string_view>) {
    return part.size();
  } else {
    return 20;  // digits of any number
  }
}

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  out.reserve((MostBytes(parts) + ... + 0));
  Append(out, parts...);
  return out;
}

inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

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

inline bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

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
