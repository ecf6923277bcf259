// SPDX-License-Identifier: Apache-2.0
//
// Joins and splits text, and makes it safe to print. Pure functions; any thread. std only: Debian 12 builds Abseil with
// a string_view of its own, which does not mix with std's.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace distlock::ops {

// A JSON string in double quotes. Control bytes, quotes, backslashes and marks that reorder or break lines are escaped
// as \uXXXX; bytes that are not UTF-8 become \ufffd.
std::string JsonQuoted(std::string_view text);

// Returns a plain word unchanged, anything else as JsonQuoted does: safe as the value in key=value.
std::string WordOrQuoted(std::string_view text);

// True for UTF-8 without any character that JsonQuoted escapes as \uXXXX.
bool IsShowable(std::string_view text);

std::string HtmlEscaped(std::string_view text);

// The parts between separators. An empty text has one empty part.
std::vector<std::string_view> Split(std::string_view text, std::string_view separator);

bool Contains(std::string_view text, std::string_view part);

template <typename T>
std::string NumberText(T number) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof(buffer), number).ptr};
}

// Strings of either kind and numbers in a row.
template <typename... Parts>
std::string Cat(const Parts&... parts) {
  std::string out;
  const auto append = [&](const auto& part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_arithmetic_v<Part>) {
      static_assert(!std::is_same_v<Part, char> && !std::is_same_v<Part, bool>);
      out += NumberText(part);
    } else if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
      out += std::string_view(part);
    } else {
      out.append(part.data(), part.size());
    }
  };
  (append(parts), ...);
  return out;
}

}  // namespace distlock::ops
