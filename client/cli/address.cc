// SPDX-License-Identifier: Apache-2.0
#include "address.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace distlock::cli {
namespace {

constexpr char kDefaultSocket[] = "/run/distlock/distlock.sock";

// "" when gRPC knows it, or there is none.
std::string WrongScheme(const std::string& target) {
  const size_t end = target.find("://");
  if (end == std::string::npos) return "";
  const std::string scheme = target.substr(0, end);
  constexpr const char* kKnown[] = {"unix", "tls", "dns", "ipv4", "ipv6", "vsock"};
  return std::ranges::find(kKnown, scheme) == std::end(kKnown) ? scheme : "";
}

// "" when the target is no socket in the file system.
std::string SocketPath(const std::string& target) {
  if (target.rfind("unix:", 0) != 0) return "";
  return target.substr(target.rfind("unix://", 0) == 0 ? 7 : 5);
}

bool IsForbidden(const std::string& path) {
  return !path.empty() && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0 && errno == EACCES;
}

}  // namespace

std::optional<Failure> UselessAddress(const Context& context) {
  const std::vector<std::string> targets = context.Targets();
  for (const std::string& target : targets) {
    const std::string scheme = WrongScheme(target);
    if (scheme.empty()) continue;
    return UsageFailure(absl::StrCat("the broker's address ", target, " begins with ", scheme,
                                     "://; give host:port with no scheme, tls://host:port, or unix:///path"));
  }
  if (!std::ranges::all_of(targets, [](const auto& target) { return IsForbidden(SocketPath(target)); })) {
    return std::nullopt;
  }
  return OwnFailure("PERMISSION_DENIED",
                    absl::StrCat("permission denied: this user must not open the broker's socket at ", context.Target(),
                                 "; join the group that owns it, or give another --server"),
                    kExitDenied);
}

std::string MissingDefaultSocket(const Context& context) {
  const char* const from_environment = std::getenv("DISTLOCK_SERVER");
  const bool given = !context.server.empty() || (from_environment != nullptr && *from_environment != '\0');
  return given || ::access(kDefaultSocket, F_OK) == 0 ? "" : kDefaultSocket;
}

}  // namespace distlock::cli
