// SPDX-License-Identifier: Apache-2.0
//
// The numbers of the contract that no option of a broker lowers: a client may rely on them.
#pragma once

#include <cstddef>

namespace distlock::wire {

// Locks of one AcquireLocks or AcquireRequest.
inline constexpr size_t kMostLocksTogether = 64;
// The largest message from a client, unless a broker's --limits max-message-bytes=N is higher.
inline constexpr size_t kMostMessageBytes = 64 * 1024;

}  // namespace distlock::wire
