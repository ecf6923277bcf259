// SPDX-License-Identifier: Apache-2.0
//
// Whether this process is the one in which something was made. A fork copies the memory and shares the sockets, but has none of the
// threads: what the copy of a connection would write, the broker would take for its owner's words.
#pragma once

#include <cstdint>

namespace distlock::internal {

// How often this process's line has forked since the first call of it; another number than before: in a child. Any thread.
uint64_t ForkCount();

}  // namespace distlock::internal
