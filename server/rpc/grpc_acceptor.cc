// SPDX-License-Identifier: Apache-2.0
#include "rpc/grpc_acceptor.h"

#include <grpcpp/server_posix.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "rpc/fd_identity.h"

namespace distlock::rpc {
namespace {

constexpr char kSomebody[] = "unix:uid=unknown";

// Only unix sockets are handed over as bare descriptors, and the peers of all others are ipv4: or ipv6:.
bool IsOfUnixSocket(const std::string& grpc_peer) {
  return grpc_peer.starts_with("fd:") || grpc_peer.starts_with("unix:");
}

}  // namespace

void WithoutReflection::UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) {
  std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
}

absl::Status GrpcAcceptor::Open(acceptor::AcceptorOptions options, const Encryption& encryption,
                                grpc::ServerBuilder& builder) {
  options.tls = encryption.shelf != nullptr;
  auto opened = acceptor::Acceptor::Open(std::move(options));
  if (!opened.ok()) return opened.status();
  acceptor_ = *std::move(opened);
  const auto is_unix = [](const std::string& address) { return !acceptor::UnixPath(address).empty(); };
  if (!std::all_of(addresses().begin(), addresses().end(), is_unix)) {
    external_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        encryption.shelf == nullptr ? grpc::InsecureServerCredentials()
                                    : MakeBrokerCredentials(*encryption.shelf, encryption.client_auth));
  }
  knows_unix_callers_ = NamesByDescriptorHold();
  return absl::OkStatus();
}

void GrpcAcceptor::Start(grpc::Server& server) {
  excess_ = std::make_unique<ExcessListener>([this](const std::string& grpc_peer) {
    const auto connection = acceptor_->PeerOf(grpc_peer);
    if (connection != nullptr) connection->Cut(acceptor::CutCause::kFrames);
  });
  acceptor_->Start([this, &server](int fd, int listener_fd, const acceptor::Connection& connection) {
    if (connection.kind == acceptor::Kind::kUnix) return grpc::AddInsecureChannelFromFd(&server, fd);
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters handed;
    handed.listener_fd = listener_fd;
    handed.fd = fd;
    external_->HandleNewConnection(&handed);
  });
}

std::shared_ptr<acceptor::Connection> GrpcAcceptor::ConnectionOf(const std::string& grpc_peer) const {
  if (knows_unix_callers_ || !IsOfUnixSocket(grpc_peer)) return acceptor_->PeerOf(grpc_peer);
  return std::make_shared<acceptor::Connection>(0, acceptor::Kind::kUnix, kSomebody, kSomebody, std::nullopt, -1,
                                                acceptor::CallBudget(), nullptr);
}

}  // namespace distlock::rpc
