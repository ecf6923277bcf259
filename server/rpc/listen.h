// SPDX-License-Identifier: Apache-2.0
//
// Checks that an address can be listened on, and says in one line why not. gRPC itself would only log an error, would
// take over a unix socket that is in use, and would share a TCP port with another process. Called at start, by one
// thread, before gRPC binds.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace distlock::rpc {

// "unix:///path" or "unix:/path" -> "/path"; "" for every other address.
std::string UnixPath(std::string_view address);

// Makes the folder, and removes a socket that no process listens on. FailedPrecondition: another process listens there,
// or the path is not a socket.
absl::Status ClaimUnixSocket(const std::string& path);

// Binds host:port and closes it again. An empty or wildcard host is allowed.
absl::Status ProbeTcp(const std::string& address);

}  // namespace distlock::rpc
