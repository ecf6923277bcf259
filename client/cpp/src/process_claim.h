// SPDX-License-Identifier: Apache-2.0
//
// A process's claim about itself, so that a broker on the same machine sees its end. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace distlock::internal {

struct ProcessClaim {
  std::string boot_id;
  int64_t pidfd_inode = 0;
};

// Asks the kernel anew each time, because a child of fork is another process. nullopt: it is older than Linux 6.9.
std::optional<ProcessClaim> ClaimThisProcess();

}  // namespace distlock::internal
