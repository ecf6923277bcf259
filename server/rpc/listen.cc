// SPDX-License-Identifier: Apache-2.0
#include "rpc/listen.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace distlock::rpc {
namespace {

class Socket {
 public:
  Socket(int family, int protocol) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// The daemon's user and group may connect.
constexpr mode_t kSocketMode = 0660;

// Sets the umask during a bind, so that the socket is never open to everybody, not even for a moment.
class ScopedUmask {
 public:
  explicit ScopedUmask(mode_t mask) : before_(umask(mask)) {}
  ~ScopedUmask() { umask(before_); }
  ScopedUmask(const ScopedUmask&) = delete;
  ScopedUmask& operator=(const ScopedUmask&) = delete;

 private:
  const mode_t before_;
};

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", why));
}

// gRPC does not say why a bind has failed, so it is tried before.
absl::Status TryToBind(const std::string& path, const std::filesystem::path& folder, const std::string& address) {
  const Socket trial(AF_UNIX, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof(where.sun_path)) return CannotListen(address, "the path is too long for a unix socket");
  std::memcpy(where.sun_path, path.c_str(), path.size() + 1);
  if (bind(trial.fd(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0) {
    unlink(path.c_str());
    return absl::OkStatus();
  }
  if (errno != EACCES && errno != EROFS) return CannotListen(address, strerror(errno));
  return CannotListen(address, absl::StrCat("user ", geteuid(), " cannot make a socket in ", folder.string(), ": ",
                                            strerror(errno), "; let it write there, or choose another --listen"));
}

}  // namespace

std::string UnixPath(std::string_view address) {
  if (address.rfind("unix:", 0) != 0) return "";
  address.remove_prefix(std::string_view("unix:").size());
  if (address.rfind("//", 0) == 0) address.remove_prefix(2);
  return std::string(address);
}

absl::Status ClaimUnixSocket(const std::string& path) {
  const std::string address = absl::StrCat("unix://", path);
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return CannotListen(address, absl::StrCat("cannot make its folder ", folder.string(), ": ", error.message(),
                                              "; make it, or choose another --listen"));
  }
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? TryToBind(path, folder, address) : CannotListen(address, strerror(errno));
  }
  if (!S_ISSOCK(found.st_mode)) return CannotListen(address, "something that is no socket has this name; remove it");

  const Socket probe(AF_UNIX, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof(where.sun_path)) return CannotListen(address, "the path is too long for a unix socket");
  std::memcpy(where.sun_path, path.c_str(), path.size() + 1);
  if (connect(probe.fd(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0) {
    return CannotListen(address, "another process is listening there; stop it, or choose another --listen");
  }
  if (errno != ECONNREFUSED && errno != ENOENT) return CannotListen(address, strerror(errno));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return CannotListen(address, absl::StrCat("cannot remove the socket that a dead process left: ", strerror(errno)));
  }
  return TryToBind(path, folder, address);
}

absl::Status ProbeTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return CannotListen(address, "write host:port, [ipv6]:port or unix:///path");
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = address.substr(colon + 1);

  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0) return CannotListen(address, gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);

  std::string why = "it has no address";
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const Socket probe(at->ai_family, at->ai_protocol);
    const int yes = 1;
    setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (at->ai_family == AF_INET6) setsockopt(probe.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
    if (bind(probe.fd(), at->ai_addr, at->ai_addrlen) == 0 && listen(probe.fd(), 1) == 0) return absl::OkStatus();
    why = strerror(errno);
    if (errno == EADDRINUSE) why += "; another process has this port: stop it, or choose another --listen";
  }
  return CannotListen(address, why);
}

void WithoutReflection::UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) {
  std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
}

absl::StatusOr<BoundServer> BuildAndListen(grpc::ServerBuilder& builder, const std::vector<std::string>& addresses) {
  std::vector<int> ports(addresses.size(), 0);
  for (size_t i = 0; i < addresses.size(); ++i) {
    const std::string path = UnixPath(addresses[i]);
    absl::Status claimed = path.empty() ? ProbeTcp(addresses[i]) : ClaimUnixSocket(path);
    if (!claimed.ok()) return claimed;
    builder.AddListeningPort(path.empty() ? addresses[i] : absl::StrCat("unix:", path),
                             grpc::InsecureServerCredentials(), &ports[i]);
  }
  BoundServer bound{.server = nullptr, .addresses = addresses};
  {
    const ScopedUmask restricted(0777 & ~kSocketMode);
    bound.server = builder.BuildAndStart();
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    std::string& address = bound.addresses[i];
    if (UnixPath(address).empty()) address = absl::StrCat(address.substr(0, address.rfind(':') + 1), ports[i]);
  }
  const auto unbound = std::find(ports.begin(), ports.end(), 0);
  if (bound.server == nullptr || unbound != ports.end()) {
    const size_t which = std::min<size_t>(unbound - ports.begin(), ports.size() - 1);
    return CannotListen(addresses[which], "another process took it just now; try again");
  }
  return bound;
}

}  // namespace distlock::rpc
