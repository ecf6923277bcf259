// SPDX-License-Identifier: Apache-2.0
#include "process_claim.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>

namespace distlock::internal {
namespace {

constexpr decltype(statfs::f_type) kPidfs = 0x50494446;
// Older headers than the kernel lack it; the number is the same on all machines.
#ifdef SYS_pidfd_open
constexpr long kPidfdOpen = SYS_pidfd_open;
#else
constexpr long kPidfdOpen = 434;
#endif

}  // namespace

std::optional<ProcessClaim> ClaimThisProcess() {
  const int pidfd = static_cast<int>(::syscall(kPidfdOpen, ::getpid(), 0));
  if (pidfd < 0) return std::nullopt;
  struct statfs system{};
  struct stat found{};
  const bool known = ::fstatfs(pidfd, &system) == 0 && system.f_type == kPidfs && ::fstat(pidfd, &found) == 0;
  ::close(pidfd);
  if (!known) return std::nullopt;
  ProcessClaim claim{.boot_id = "", .pidfd_inode = static_cast<int64_t>(found.st_ino)};
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!(file >> claim.boot_id)) return std::nullopt;
  return claim;
}

}  // namespace distlock::internal
