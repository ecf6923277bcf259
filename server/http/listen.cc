// SPDX-License-Identifier: Apache-2.0
#include "http/listen.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "text/text.h"

namespace distlock::http {
namespace {

using text::Cat;

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 1024;

absl::Status Cannot(std::string_view why) { return absl::FailedPreconditionError(Cat("cannot be served: ", why)); }
absl::Status CannotBecause(int error) { return Cannot(strerror(error)); }

// "" for what is no unix address.
std::string PathOf(std::string_view address) {
  if (!address.starts_with("unix:")) return "";
  address.remove_prefix(std::string_view("unix:").size());
  if (address.starts_with("//")) address.remove_prefix(2);
  return std::string(address);
}

int NewSocket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

// Removes the socket of a process that has ended.
absl::Status MakeRoom(const std::string& path, const sockaddr_un& where) {
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) return errno == ENOENT ? absl::OkStatus() : CannotBecause(errno);
  if (!S_ISSOCK(found.st_mode)) return Cannot("something that is no socket has this name; remove it");
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int connected = connect(probe, reinterpret_cast<const sockaddr*>(&where), sizeof(where));
  const int error = errno;
  close(probe);
  if (connected == 0) return Cannot("another process is listening there; stop it, or choose another path");
  if (error != ECONNREFUSED && error != ENOENT) return CannotBecause(error);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return CannotBecause(errno);
  return absl::OkStatus();
}

absl::Status ListenAtPath(const std::string& path, int fd) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof(where.sun_path)) return Cannot("the path is too long for a unix socket");
  std::memcpy(where.sun_path, path.c_str(), path.size() + 1);
  if (absl::Status room = MakeRoom(path, where); !room.ok()) return room;
  // So that the socket is never open to everybody, not even for a moment.
  const mode_t before = umask(~kSocketMode & 0777U);
  const int bound = bind(fd, reinterpret_cast<const sockaddr*>(&where), sizeof(where));
  const int error = errno;
  umask(before);
  if (bound != 0) return CannotBecause(error);
  if (listen(fd, kBacklog) != 0) return CannotBecause(errno);
  return absl::OkStatus();
}

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};

}  // namespace

absl::StatusOr<ListeningSocket> ListeningSocket::Open(std::string_view address) {
  ListeningSocket made;
  if (const std::string path = PathOf(address); !path.empty()) {
    made.fd_ = NewSocket(AF_UNIX);
    if (made.fd_ < 0) return CannotBecause(errno);
    if (absl::Status listening = ListenAtPath(path, made.fd_); !listening.ok()) return listening;
    made.path_ = path;
    made.address_ = Cat("unix://", path);
    return made;
  }
  const size_t colon = address.rfind(':');
  std::string host(address.substr(0, colon));
  const std::string port(address.substr(colon == std::string_view::npos ? address.size() : colon + 1));
  const std::string shown_host = host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Cannot(Cat("the host must be an IP address or localhost: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> where(found);
  made.fd_ = NewSocket(where->ai_family);
  // A machine without IPv6: [::] stands for all addresses, as the door of gRPC takes it.
  if (made.fd_ < 0 && errno == EAFNOSUPPORT && host == "::") return Open(Cat("0.0.0.0:", port));
  if (made.fd_ < 0) return CannotBecause(errno);
  const int on = 1;
  const int off = 0;
  setsockopt(made.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (host == "::") setsockopt(made.fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(made.fd_, where->ai_addr, where->ai_addrlen) != 0) return CannotBecause(errno);
  if (listen(made.fd_, kBacklog) != 0) return CannotBecause(errno);
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(made.fd_, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return CannotBecause(errno);
  made.port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                                 : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  made.address_ = Cat(shown_host, ":", made.port_);
  return made;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      port_(other.port_),
      address_(std::move(other.address_)),
      path_(std::exchange(other.path_, {})) {}

ListeningSocket::~ListeningSocket() {
  if (!path_.empty()) unlink(path_.c_str());
  if (fd_ >= 0) close(fd_);
}

int ListeningSocket::Release() { return std::exchange(fd_, -1); }

}  // namespace distlock::http
