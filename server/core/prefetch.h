// SPDX-License-Identifier: Apache-2.0
//
// Prefetching into the processor's cache. Records lie scattered in memory; waiting for one after the other is most of
// the cost of renewing many leases.
#pragma once

#include <cstddef>
#include <cstdint>

namespace distlock::core {

// Starts loading `bytes` (> 0) from `begin` on into the cache. Has no other effect, and is safe for any address.
inline void PrefetchRange(const void* begin, size_t bytes) {
  constexpr uintptr_t kLine = 64;  // bytes of a cache line
  const auto at = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t line = at / kLine; line <= (at + bytes - 1) / kLine; ++line) {
    __builtin_prefetch(reinterpret_cast<const void*>(line * kLine));
  }
}

}  // namespace distlock::core
