// SPDX-License-Identifier: Apache-2.0
//
// Effects of fork on this library. A child has a copy of the memory and shares the sockets and the poller's descriptor,
// but has none of the threads. The child must not use the copy of a connection: the broker would take the child's
// messages for the parent's. Nor does gRPC work in a child that was forked while gRPC was in use: its timer threads are
// missing. Any thread.
#pragma once

#include <cstdint>

namespace distlock::internal {

// Grows by one in each child. An object that sees another number than at its construction is a copy in a child. Counts
// from the first call on.
uint64_t ForkCount();

// True in a child that was forked while gRPC was in use, and in children of such a child. Counts from the first call of
// ForkCount on.
bool GrpcIsTheParents();

}  // namespace distlock::internal
