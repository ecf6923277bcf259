// SPDX-License-Identifier: Apache-2.0
//
// Readers and writers of few locks: sessions with one operation in flight, under the policy FAIR. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

inline constexpr size_t kReaders = 64;  // sessions

// Each pair takes one of `locks` at random, for writing with a chance of `writer_percent`, else for reading. Checks
// that a writer is alone and that each session sees the tokens of a lock grow. Columns: ops/s, reader p50 µs, reader
// p99 µs and, with writers, writer p50 µs, writer p99 µs (acquire sent to grant seen), CPU (µs per pair).
Sample ReadersAndWriters(const Lab& lab, size_t locks, int writer_percent);

}  // namespace distlock::bench
