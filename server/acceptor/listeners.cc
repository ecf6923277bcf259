// SPDX-License-Identifier: Apache-2.0
#include "acceptor/listeners.h"

#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "acceptor/address.h"
#include "acceptor/peers.h"
#include "text/unix_address.h"

namespace distlock::acceptor {
namespace {

constexpr int kBacklog = 1024;
// One connection may send so much before somebody reads it. gRPC reads all of it before it does anything else, so that
// a larger buffer is more work for it at one stroke.
constexpr int kReceiveBytes = 128 << 10;
constexpr int kFirstInherited = 3;  // as sd_listen_fds(3) has it
constexpr char kOtherProcess[] = "; another process has this port: stop it, or choose another address";

absl::Status CannotListen(const std::string& address, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", why));
}

// Sets the umask during a bind, so that the socket is never open to more than its mode says, not even for a moment.
class ScopedUmask {
 public:
  explicit ScopedUmask(mode_t mask) : before_(umask(mask)) {}
  ~ScopedUmask() { umask(before_); }
  ScopedUmask(const ScopedUmask&) = delete;
  ScopedUmask& operator=(const ScopedUmask&) = delete;

 private:
  const mode_t before_;
};

absl::StatusOr<gid_t> GroupOf(const std::string& name) {
  gid_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  std::vector<char> buffer(1 << 14);
  group entry{};
  group* found = nullptr;
  if (getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    return found->gr_gid;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("there is no group '", name, "': create it, or write another after group="));
}

bool FillPath(const std::string& path, sockaddr_un& where) {
  where.sun_family = AF_UNIX;
  if (path.size() >= sizeof(where.sun_path)) return false;
  std::memcpy(where.sun_path, path.c_str(), path.size() + 1);
  return true;
}

absl::Status SetOwner(const std::string& address, const text::UnixAddress& wanted) {
  // The umask may only take bits away from 0666, so that bits for running the file need chmod.
  if (chmod(wanted.path.c_str(), wanted.mode) != 0) return CannotListen(address, strerror(errno));
  if (wanted.group.empty()) return absl::OkStatus();
  const auto group = GroupOf(wanted.group);
  if (!group.ok()) return CannotListen(address, std::string(group.status().message()));
  if (chown(wanted.path.c_str(), static_cast<uid_t>(-1), *group) == 0) return absl::OkStatus();
  return CannotListen(address, absl::StrCat("cannot give the socket to group ", wanted.group, ": ", strerror(errno),
                                            "; run as a member of it, or leave group= out"));
}

absl::Status BindUnix(const std::string& address, std::vector<Listener>& into) {
  const text::UnixAddress wanted = text::ParseUnixAddress(address);
  if (!wanted.problem.empty()) return CannotListen(address, wanted.problem);
  bool made_folder = false;
  if (absl::Status claimed = ClaimUnixSocket(wanted.path, &made_folder); !claimed.ok()) return claimed;
  Listener listener{.fd = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                    .is_unix = true,
                    .address = absl::StrCat("unix://", wanted.path),
                    .made_folder = made_folder};
  sockaddr_un where{};
  FillPath(wanted.path, where);
  {
    const ScopedUmask restricted(0777 & ~wanted.mode);
    if (bind(listener.fd.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) != 0) {
      return CannotListen(
          address, absl::StrCat(strerror(errno), errno == EADDRINUSE ? "; another process took it just now; try again"
                                                                     : "; choose another address"));
    }
  }
  if (absl::Status set = SetOwner(address, wanted); !set.ok()) return set;
  if (listen(listener.fd.get(), kBacklog) != 0) return CannotListen(address, strerror(errno));
  struct stat made{};
  if (lstat(wanted.path.c_str(), &made) == 0) {
    listener.path = wanted.path;
    listener.device = made.st_dev;
    listener.inode = made.st_ino;
  }
  into.push_back(std::move(listener));
  return absl::OkStatus();
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const std::string& address) {
  const auto parts = ParseHostPort(address);
  if (!parts.ok()) return CannotListen(address, absl::StrCat("it ", parts.status().message()));
  const std::string port = absl::StrCat(parts->port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  // Everything, in both families: as one socket where the system can.
  const bool any = parts->host == "0.0.0.0" || parts->host == "::";
  int failed = getaddrinfo(any ? "::" : parts->host.c_str(), port.c_str(), &hints, &found);
  if (failed != 0 && any) failed = getaddrinfo("0.0.0.0", port.c_str(), &hints, &found);
  if (failed != 0) return CannotListen(address, gai_strerror(failed));
  return Addresses(found, freeaddrinfo);
}

bool IsAnyV6(const sockaddr* where) {
  return where->sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(where)->sin6_addr);
}

uint16_t PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

// A listening socket at `where`, or an invalid one with errno.
Fd ListenAt(sockaddr* where, socklen_t size) {
  Fd fd(socket(where->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  // Accepted connections inherit it.
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof(kReceiveBytes));
  const int only_v6 = IsAnyV6(where) ? 0 : 1;
  if (where->sa_family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6));
  if (bind(fd.get(), where, size) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int why = errno;
    fd.Reset();
    errno = why;
  }
  return fd;
}

absl::Status BindTcp(const std::string& address, std::vector<Listener>& into) {
  auto found = Resolve(address);
  if (!found.ok()) return found.status();
  std::string why = "it has no address";
  std::vector<Listener> bound;
  uint16_t port = 0;  // as the kernel chose it for the first
  for (addrinfo* at = found->get(); at != nullptr; at = at->ai_next) {
    if (port != 0) {
      auto& set = at->ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(at->ai_addr)->sin6_port
                                            : reinterpret_cast<sockaddr_in*>(at->ai_addr)->sin_port;
      set = htons(port);
    }
    Fd fd = ListenAt(at->ai_addr, at->ai_addrlen);
    if (fd.get() < 0 && IsAnyV6(at->ai_addr) && errno != EADDRINUSE) {
      // No IPv6 on this machine.
      sockaddr_in any{};
      any.sin_family = AF_INET;
      any.sin_port = reinterpret_cast<sockaddr_in6*>(at->ai_addr)->sin6_port;
      fd = ListenAt(reinterpret_cast<sockaddr*>(&any), sizeof(any));
    }
    if (fd.get() < 0) {
      why = absl::StrCat(strerror(errno), errno == EADDRINUSE ? kOtherProcess : "");
      if (errno == EADDRINUSE) return CannotListen(address, why);
      continue;
    }
    port = PortOf(fd.get());
    bound.push_back({.fd = std::move(fd),
                     .is_unix = false,
                     .address = absl::StrCat(address.substr(0, address.rfind(':') + 1), port)});
  }
  if (bound.empty()) return CannotListen(address, why);
  std::move(bound.begin(), bound.end(), std::back_inserter(into));
  return absl::OkStatus();
}

bool IsSame(const sockaddr_storage& bound, const addrinfo& wanted) {
  sockaddr_storage as_given{};
  std::memcpy(&as_given, wanted.ai_addr, wanted.ai_addrlen);
  return AddressText(bound) == AddressText(as_given);
}

// Whether an inherited socket is bound to this address.
bool Serves(const Fd& socket, const std::string& address) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return false;
  if (bound.ss_family == AF_UNIX) {
    const auto& at = reinterpret_cast<const sockaddr_un&>(bound);
    return text::IsUnixAddress(address) && UnixPath(address) == at.sun_path;
  }
  if (text::IsUnixAddress(address)) return false;
  const auto found = Resolve(address);
  if (!found.ok()) return false;
  const auto any_v4 = [&] {
    const auto parts = ParseHostPort(address);
    return parts.ok() && parts->host == "0.0.0.0" && AddressText(bound) == absl::StrCat("ipv4:0.0.0.0:", parts->port);
  };
  for (const addrinfo* at = found->get(); at != nullptr; at = at->ai_next) {
    if (IsSame(bound, *at)) return true;
  }
  return any_v4();
}

std::string Shown(const Fd& socket) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  if (bound.ss_family == AF_UNIX) return absl::StrCat("unix://", reinterpret_cast<const sockaddr_un&>(bound).sun_path);
  const std::string text = AddressText(bound);
  return text.empty() ? "an address of another kind" : text.substr(text.find(':') + 1);
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int Fd::Release() { return std::exchange(fd_, -1); }

void Fd::Reset() {
  if (fd_ >= 0) close(Release());
}

std::string UnixPath(std::string_view address) {
  return text::IsUnixAddress(address) ? text::ParseUnixAddress(address).path : "";
}

absl::Status ClaimUnixSocket(const std::string& path, bool* made_folder) {
  const std::string address = absl::StrCat("unix://", path);
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  const bool made = std::filesystem::create_directories(folder, error);
  if (error) {
    return CannotListen(address, absl::StrCat("cannot make its folder ", folder.string(), ": ", error.message(),
                                              "; make it, or choose another address"));
  }
  if (made_folder != nullptr) *made_folder = made;
  sockaddr_un where{};
  if (!FillPath(path, where)) return CannotListen(address, "the path is too long for a unix socket; choose a shorter");
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus() : CannotListen(address, strerror(errno));
  }
  if (!S_ISSOCK(found.st_mode)) return CannotListen(address, "something that is no socket has this name; remove it");

  const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool connected = connect(probe.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0;
  if (connected || errno == EAGAIN) {  // EAGAIN: its queue is full
    return CannotListen(address, "another process is listening there; stop it, or choose another address");
  }
  if (errno != ECONNREFUSED && errno != ENOENT) return CannotListen(address, strerror(errno));
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return CannotListen(address, absl::StrCat("cannot remove the socket that a dead process left: ", strerror(errno)));
  }
  return absl::OkStatus();
}

std::vector<int> InheritedSockets() {
  std::vector<int> sockets;
  const char* const pid = std::getenv("LISTEN_PID");
  const char* const count_text = std::getenv("LISTEN_FDS");
  int count = 0;
  int64_t meant = 0;
  const bool ours = pid != nullptr && count_text != nullptr && absl::SimpleAtoi(pid, &meant) && meant == getpid() &&
                    absl::SimpleAtoi(count_text, &count);
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  for (int fd = kFirstInherited; ours && fd < kFirstInherited + count; ++fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    sockets.push_back(fd);
  }
  return sockets;
}

absl::StatusOr<std::vector<Listener>> OpenListeners(const std::vector<std::string>& addresses,
                                                    const std::vector<int>& inherited_sockets) {
  std::vector<Fd> inherited;
  for (const int fd : inherited_sockets) inherited.emplace_back(fd);
  std::vector<Listener> listeners;
  const auto fail = [&](const absl::Status& status) {
    for (Listener& listener : listeners) CloseListener(listener);
    return status;
  };
  for (const std::string& address : addresses) {
    const bool is_unix = text::IsUnixAddress(address);
    bool served = false;
    for (Fd& socket : inherited) {
      if (socket.get() < 0 || !Serves(socket, address)) continue;
      listeners.push_back({.fd = std::move(socket),
                           .is_unix = is_unix,
                           .address = is_unix ? absl::StrCat("unix://", UnixPath(address)) : address});
      served = true;
    }
    if (served) continue;
    if (absl::Status bound = is_unix ? BindUnix(address, listeners) : BindTcp(address, listeners); !bound.ok()) {
      return fail(bound);
    }
  }
  for (const Fd& socket : inherited) {
    if (socket.get() < 0) continue;
    return fail(absl::FailedPreconditionError(
        absl::StrCat("systemd passes a socket on ", Shown(socket),
                     " (LISTEN_FDS), which no --listen names: add that --listen, or take it out of the .socket unit")));
  }
  return listeners;
}

absl::StatusOr<Listener> OpenListener(const std::string& address) {
  auto opened = OpenListeners({address}, {});
  if (!opened.ok()) return opened.status();
  if (opened->size() == 1) return std::move(opened->front());
  return CannotListen(address, "the name stands for several addresses; give one of them");
}

void CloseListener(Listener& listener) {
  struct stat found{};
  const bool is_ours = !listener.path.empty() && lstat(listener.path.c_str(), &found) == 0 &&
                       found.st_dev == listener.device && found.st_ino == listener.inode;
  listener.fd.Reset();
  if (is_ours) unlink(listener.path.c_str());
}

}  // namespace distlock::acceptor
