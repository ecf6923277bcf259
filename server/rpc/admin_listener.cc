// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_listener.h"

#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace distlock::rpc {
namespace {

constexpr int kMostRequestBytes = 16 * 1024;
constexpr int kMostConnectionStreams = 100;
constexpr size_t kMostConnections = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<AdminListener>> AdminListener::Start(acceptor::AcceptorOptions acceptor,
                                                                    const Encryption& encryption, Frontend& frontend,
                                                                    const BrokerFacts& facts) {
  std::unique_ptr<AdminListener> admin(new AdminListener(frontend, facts));
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<WithoutReflection>());
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostConnectionStreams);
  builder.RegisterService(&admin->service_);
  AdminListener& self = *admin;
  admin->threads_ = std::make_unique<CallThreads>(
      builder, [&self](const std::string& grpc_peer) { return self.acceptor_.ConnectionOf(grpc_peer); }, 1);
  acceptor.max_connections = std::min(acceptor.max_connections, kMostConnections);
  if (absl::Status opened = admin->acceptor_.Open(std::move(acceptor), encryption, builder); !opened.ok())
    return opened;
  admin->server_ = builder.BuildAndStart();
  if (admin->server_ == nullptr) {
    return absl::FailedPreconditionError("gRPC cannot start its server for --admin-listen; its log tells more");
  }
  admin->service_.Open(*admin->threads_);
  admin->threads_->Start();
  admin->acceptor_.Start(*admin->server_);
  return admin;
}

void AdminListener::Stop(core::Duration grace) {
  if (server_ == nullptr) return;
  acceptor_.StopAccepting();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::microseconds>(grace));
  threads_->Stop();
  server_.reset();
}

}  // namespace distlock::rpc
