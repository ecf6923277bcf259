// SPDX-License-Identifier: Apache-2.0
//
// Addresses to listen on, as text: `unix:///path` or `host:port`. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace distlock::acceptor {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;      // 0: the kernel chooses
};

// `host:port` or `[v6]:port`; the host may not be empty.
absl::StatusOr<HostPort> ParseHostPort(std::string_view address);

// True for 127.0.0.0/8, ::1 and "localhost". False for a name that a resolver would have to look up.
bool IsLoopback(std::string_view host);

// Ok for values of --listen: an absolute unix path that fits into a socket address, or host:port.
absl::Status CheckListenAddress(std::string_view address);

}  // namespace distlock::acceptor
