// SPDX-License-Identifier: Apache-2.0
//
// What fork does to this library. A child has a copy of the memory and shares the sockets and the poller's descriptor,
// but has none of the threads. A connection's copy must not be used there: the broker takes what it writes for the
// parent's words. Nor does gRPC work in a child that was forked while it was in use: the threads of its timers are
// missing. Any thread.
#pragma once

#include <cstdint>

namespace distlock::internal {

// Grows by one in each child. An object that sees another number than at its construction is a copy in a child. Counts
// from the first call on.
uint64_t ForkCount();

// This process is a child that was forked while gRPC was in use, or a child of such a child. Known from the first call
// of ForkCount on.
bool GrpcIsTheParents();

}  // namespace distlock::internal
