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
  constexpr size_t kLine = 64;  // bytes of a cache line
  const auto* const first = static_cast<const char*>(begin);
  __builtin_prefetch(first);
  const size_t second_line = kLine - reinterpret_cast<uintptr_t>(begin) % kLine;
  for (size_t line = second_line; line < bytes; line += kLine) __builtin_prefetch(first + line);
}

}  // namespace distlock::core
