// SPDX-License-Identifier: Apache-2.0
//
// A listening socket for an address of the options. Called at start, by one thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::http {

// Owns the descriptor, and the file of a unix socket.
class ListeningSocket {
 public:
  // unix:///path, which the daemon's user and group may use; or host:port with an IP address or "localhost". A unix
  // socket that no process listens on is replaced. FailedPrecondition, in one line, says why it cannot be had.
  static absl::StatusOr<ListeningSocket> Open(std::string_view address);
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket();

  int fd() const { return fd_; }
  // The descriptor is somebody else's to close.
  int Release();
  const std::string& address() const { return address_; }  // as bound
  int port() const { return port_; }                       // 0 of a unix socket

 private:
  ListeningSocket() = default;

  int fd_ = -1;
  int port_ = 0;
  std::string address_;
  std::string path_;  // to be removed; "": none
};

}  // namespace distlock::http
