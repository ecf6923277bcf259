// SPDX-License-Identifier: Apache-2.0
//
// Listens, and says in one line why it cannot. gRPC itself would only log an error, would take over a unix socket that
// is in use, and would share a TCP port with another process. Called at start, by one thread.
#pragma once

#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace distlock::rpc {

// "unix:///path" or "unix:/path" -> "/path"; "" for every other address.
std::string UnixPath(std::string_view address);

// Makes the folder, and removes a socket that no process listens on. FailedPrecondition: another process listens there,
// or the path is not a socket.
absl::Status ClaimUnixSocket(const std::string& path);

// Binds host:port and closes it again. An empty or wildcard host is allowed.
absl::Status ProbeTcp(const std::string& address);

// The reflection library adds itself to every server of a process that links it; this option removes it.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override;
};

struct BoundServer {
  std::unique_ptr<grpc::Server> server;
  std::vector<std::string> addresses;  // as bound, with the ports that the kernel chose
};

// Builds and starts the server on all addresses; unix sockets are for the daemon's user and group. FailedPrecondition,
// in one line, when it cannot listen on one of them.
absl::StatusOr<BoundServer> BuildAndListen(grpc::ServerBuilder& builder, const std::vector<std::string>& addresses);

}  // namespace distlock::rpc
