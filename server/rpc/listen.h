// SPDX-License-Identifier: Apache-2.0
//
// Makes sure that an address can be listened on, and says in one line why not: gRPC only logs, takes over a live unix
// socket without asking, and shares a TCP port with whoever has it. Called at start, by one thread, before gRPC binds.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace distlock::rpc {

// "unix:///path" or "unix:/path" -> "/path"; "" for every other address.
std::string UnixPath(std::string_view address);

// The folder exists after it; a socket that a dead daemon left is removed. FailedPrecondition: somebody lives there, or
// it is no socket.
absl::Status ClaimUnixSocket(const std::string& path);

// Binds host:port and lets go again. An empty or wildcard host is allowed.
absl::Status ProbeTcp(const std::string& address);

}  // namespace distlock::rpc
