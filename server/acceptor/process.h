// SPDX-License-Identifier: Apache-2.0
//
// The process at the other end of a unix socket, as a pidfd, and whether it is the one that it claims to be. Any
// thread.
//
// The kernel hands out the pidfd of the process that connected. That process itself cannot know its number here, which
// may be another in its own pid namespace, but it can say the inode of its pidfd: in pidfs each process has one of its
// own for as long as the machine runs. So the claim says that who speaks is who connected, and not a relay's client or
// a child that was left the socket.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "acceptor/listeners.h"

namespace distlock::acceptor {

// A caller's claim about its own process.
struct ProcessClaim {
  std::string boot_id;
  uint64_t pidfd_inode = 0;
};

// How the kernel is asked. Another one in tests.
struct ProcessProbe {
  // The pidfd of the process that connected the socket; none: the kernel does not know it (before Linux 6.5), or it was
  // collected before anybody asked.
  std::function<Fd(int socket)> pidfd_of;
  // 0: it cannot be told apart from those of other processes (before Linux 6.9).
  std::function<uint64_t(int pidfd)> inode_of;
  std::string boot_id;  // of this kernel; "": unknown, and nobody's claim is true
};
ProcessProbe KernelProbe();

// The pidfd of the process that connected `socket`, if that is the one in the claim; else none.
Fd ProvenProcess(const ProcessProbe& probe, int socket, const ProcessClaim& claim);

}  // namespace distlock::acceptor
