// SPDX-License-Identifier: Apache-2.0
//
// Joins and splits text. Pure; any thread. std only: where Abseil is built for C++14, as on Debian 12, its string
// functions take a string_view of its own, which does not mix with std's.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace distlock::text {

inline constexpr size_t kMostNumberBytes = 32;  // of any number in its shortest decimal form

template <typename Part>
void AppendPart(std::string& out, const Part& part) {
  if constexpr (std::is_arithmetic_v<Part>) {
    static_assert(!std::is_same_v<Part, char> && !std::is_same_v<Part, bool>);
    char buffer[kMostNumberBytes];
    out.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), part).ptr);
  } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    out.append(std::string_view(part));
  } else {
    out.append(part.data(), part.size());
  }
}

template <typename Part>
size_t MostBytes(const Part& part) {
  if constexpr (std::is_arithmetic_v<Part>) {
    return kMostNumberBytes;
  } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
    return std::string_view(part).size();
  } else {
    return part.size();
  }
}

// Strings of either kind and numbers in a row.
template <typename... Parts>
void Append(std::string& out, const Parts&... parts) {
  (AppendPart(out, parts), ...);
}

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  out.reserve((MostBytes(parts) + ... + 0));
  Append(out, parts...);
  return out;
}

// The parts between separators. An empty text has one empty part.
inline std::vector<std::string_view> Split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + separator.size())) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

inline bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace distlock::text
