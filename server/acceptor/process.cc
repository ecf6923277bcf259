// SPDX-License-Identifier: Apache-2.0
#include "acceptor/process.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <fstream>

namespace distlock::acceptor {
namespace {

// Older headers than the kernel lack these.
#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kPeerPidfd = 77;
#endif
constexpr decltype(statfs::f_type) kPidfs = 0x50494446;

Fd PidfdOf(int socket) {
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  // The kernel marks it close-on-exec.
  return getsockopt(socket, SOL_SOCKET, kPeerPidfd, &pidfd, &size) == 0 ? Fd(pidfd) : Fd();
}

uint64_t InodeOf(int pidfd) {
  struct statfs system{};
  struct stat found{};
  if (fstatfs(pidfd, &system) != 0 || system.f_type != kPidfs || fstat(pidfd, &found) != 0) return 0;
  return found.st_ino;
}

}  // namespace

ProcessProbe KernelProbe() {
  ProcessProbe probe{.pidfd_of = &PidfdOf, .inode_of = &InodeOf, .boot_id = ""};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file >> probe.boot_id;
  return probe;
}

Fd ProvenProcess(const ProcessProbe& probe, int socket, const ProcessClaim& claim) {
  if (claim.pidfd_inode == 0 || probe.boot_id.empty() || claim.boot_id != probe.boot_id) return Fd();
  Fd pidfd = probe.pidfd_of(socket);
  if (pidfd.get() < 0 || probe.inode_of(pidfd.get()) != claim.pidfd_inode) return Fd();
  return pidfd;
}

}  // namespace distlock::acceptor
