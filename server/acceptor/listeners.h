// SPDX-License-Identifier: Apache-2.0
//
// The sockets that the broker listens on: bound here, or inherited from systemd (LISTEN_FDS). Errors are
// FailedPrecondition in one line that names the address and what to do. Called at start, by one thread; then whose
// they are.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace distlock::acceptor {

// An open descriptor, closed at the end.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Reset(); }
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept;
  int get() const { return fd_; }
  int Release();
  void Reset();

 private:
  int fd_ = -1;
};

struct Listener {
  Fd fd;
  bool is_unix = false;
  std::string address;  // as given, with the port that the kernel chose and without options
  // The unix socket that was bound here: it is removed at the end, unless another process has put its own there.
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  bool made_folder = false;  // that of `path` was not there
};

// "unix:///path" or "unix:/path", with or without options -> "/path"; "" for every other address.
std::string UnixPath(std::string_view address);

// Makes the folder, which `made_folder` tells, and removes a socket that no process listens on. FailedPrecondition:
// another process listens there, or the path is not a socket.
absl::Status ClaimUnixSocket(const std::string& path, bool* made_folder = nullptr);

// The sockets that systemd passed to this process: LISTEN_PID, LISTEN_FDS. Takes both out of the environment.
std::vector<int> InheritedSockets();

// Listens on all addresses. A name may stand for several sockets. An inherited socket serves the address that it is
// bound to, and is closed with it; one that no address names is an error, because nobody has checked who may reach it.
absl::StatusOr<std::vector<Listener>> OpenListeners(const std::vector<std::string>& addresses,
                                                    const std::vector<int>& inherited_sockets);

// Listens on one socket, for a server that can have no more. An error: the address is a name for several.
absl::StatusOr<Listener> OpenListener(const std::string& address);

// Closes it, and removes its file.
void CloseListener(Listener& listener);

}  // namespace distlock::acceptor
