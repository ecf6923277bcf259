// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdlib>

#include "distlock/client.h"

namespace distlock {
namespace {

constexpr char kSocket[] = "/run/distlock/distlock.sock";
constexpr char kLoopback[] = "127.0.0.1:7420";

}  // namespace

std::string DefaultAddress() {
  const char* const from_environment = std::getenv("DISTLOCK_SERVER");
  if (from_environment != nullptr && *from_environment != '\0') return from_environment;
  struct stat info;
  const bool is_socket = ::stat(kSocket, &info) == 0 && S_ISSOCK(info.st_mode);
  return is_socket ? std::string("unix://") + kSocket : kLoopback;
}

}  // namespace distlock
