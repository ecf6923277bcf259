// SPDX-License-Identifier: Apache-2.0
//
// A broken invariant is a bug: say where and crash, in every build. The ttl in the store then protects the locks.
#pragma once

#include <cstdio>
#include <cstdlib>

#define DISTLOCK_CHECK(condition)                                                            \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
