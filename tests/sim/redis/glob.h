// SPDX-License-Identifier: Apache-2.0
//
// Patterns of keys as Redis matches them: '*', '?', '[a-z]', '[^...]', and '\' before a literal character. Pure; any
// thread.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

namespace distlock::sim {

// Whether `c` is in the set at the front of `pattern`, after its '['. Removes the set and its ']' from the front. A set
// without ']' goes on to the end of the pattern.
inline bool MatchSet(std::string_view& pattern, char c) {
  const auto take = [&] {
    const char front = pattern.front();
    pattern.remove_prefix(1);
    return front;
  };
  const bool inverted = pattern.starts_with('^');
  if (inverted) take();
  bool found = false;
  while (!pattern.empty()) {
    if (pattern.size() >= 2 && pattern.front() == '\\') {
      take();
      found |= take() == c;
    } else if (pattern.front() == ']') {
      take();
      break;
    } else if (pattern.size() >= 3 && pattern[1] == '-') {
      const auto [low, high] = std::minmax({pattern[0], pattern[2]});
      pattern.remove_prefix(3);
      found |= low <= c && c <= high;
    } else {
      found |= take() == c;
    }
  }
  return found != inverted;
}

inline bool MatchGlob(std::string_view pattern, std::string_view text) {
  while (!pattern.empty() && !text.empty()) {
    char sign = pattern.front();
    pattern.remove_prefix(1);
    if (sign == '*') {
      for (size_t skip = 0; skip <= text.size(); ++skip) {
        if (MatchGlob(pattern, text.substr(skip))) return true;
      }
      return false;
    }
    if (sign == '[') {
      if (!MatchSet(pattern, text.front())) return false;
    } else if (sign != '?') {
      if (sign == '\\' && !pattern.empty()) {
        sign = pattern.front();
        pattern.remove_prefix(1);
      }
      if (sign != text.front()) return false;
    }
    text.remove_prefix(1);
  }
  return text.empty() && pattern.find_first_not_of('*') == std::string_view::npos;
}

// Whether SCAN finds `key`. "*" alone is not matched but taken for all keys; of all other patterns only the empty one
// matches the empty key, in Redis 7 and Valkey 8.
inline bool MatchesKey(std::string_view pattern, std::string_view key) {
  if (pattern == "*") return true;
  return key.empty() ? pattern.empty() : MatchGlob(pattern, key);
}

}  // namespace distlock::sim
