// SPDX-License-Identifier: Apache-2.0
//
// "Did you mean": which of the known words a mistyped one is. Header only, with std alone; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

namespace distlock::wire {

// How many letters must be put in, taken out or changed to make one of the other.
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// The index of the nearest word; known.size(): none is near.
inline size_t Nearest(std::string_view word, const std::vector<std::string_view>& known) {
  size_t best = known.size();
  size_t best_distance = std::min<size_t>(3, word.size() / 3 + 1);
  for (size_t i = 0; i < known.size(); ++i) {
    const bool cut_short = word.size() > 3 && known[i].starts_with(word);
    const size_t distance = cut_short ? 1 : EditDistance(word, known[i]);
    if (distance < best_distance || (distance == best_distance && best == known.size())) {
      best = i;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace distlock::wire
