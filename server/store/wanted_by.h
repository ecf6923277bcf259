// SPDX-License-Identifier: Apache-2.0
//
// The number of the broker that tells a holder when somebody wants its lock: `w<broker_id>;` in front of all that the
// holder says of itself, behind the bounds and the mark that scripts read. Of a holder that did not ask there is none.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/text.h"

namespace distlock::store {

inline constexpr size_t kBrokerIdDigits = 16;

inline std::string WithWantedBy(std::string_view broker_id, std::string_view info) {
  return Cat("w", broker_id, ";", info);
}

// Takes the number off the front; 0: there is none, and nothing is taken.
inline uint64_t TakeWantedBy(std::string_view& info) {
  constexpr size_t kEnd = 1 + kBrokerIdDigits;
  if (!info.starts_with('w') || info.size() <= kEnd || info[kEnd] != ';') return 0;
  uint64_t number = 0;
  for (const char c : info.substr(1, kBrokerIdDigits)) {
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return 0;
    number = number * 16 + static_cast<uint64_t>(HexDigit(c));
  }
  info.remove_prefix(kEnd + 1);
  return number;
}

inline std::string BrokerIdOf(uint64_t number) {
  std::string id(kBrokerIdDigits, '0');
  for (size_t i = kBrokerIdDigits; i > 0 && number != 0; number /= 16) id[--i] = "0123456789abcdef"[number % 16];
  return id;
}

}  // namespace distlock::store
