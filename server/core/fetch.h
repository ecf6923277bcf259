// SPDX-License-Identifier: Apache-2.0
//
// Records lie scattered in memory, and waiting for one after the other is most of what renewing many leases costs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace distlock::core {

// Has memory bring `bytes` (> 0) from `begin` on to the processor meanwhile. Changes nothing; they need not all be there.
inline void Fetch(const void* begin, size_t bytes) {
  constexpr uintptr_t kLine = 64;  // bytes of a cache line
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t line = at / kLine; line <= (at + bytes - 1) / kLine; ++line) {
    __builtin_prefetch(reinterpret_cast<const void*>(line * kLine));
  }
}

}  // namespace distlock::core
