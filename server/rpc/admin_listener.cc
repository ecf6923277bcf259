// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_listener.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/listen.h"

namespace distlock::rpc {
namespace {

constexpr int kMostRequestBytes = 16 * 1024;
constexpr int kMostConnectionStreams = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<AdminListener>> AdminListener::Start(const std::vector<std::string>& listen,
                                                                    Frontend& frontend, const BrokerFacts& facts) {
  std::unique_ptr<AdminListener> admin(new AdminListener(frontend, facts));
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<WithoutReflection>());
  builder.SetMaxReceiveMessageSize(kMostRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostConnectionStreams);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(&admin->service_);
  admin->threads_ = std::make_unique<CallThreads>(builder, 1);
  auto bound = BuildAndListen(builder, listen);
  if (!bound.ok()) return bound.status();
  admin->server_ = std::move(bound->server);
  admin->addresses_ = std::move(bound->addresses);
  admin->service_.Open(*admin->threads_);
  admin->threads_->Start();
  return admin;
}

void AdminListener::Stop(core::Duration grace) {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::microseconds>(grace));
  threads_->Stop();
  server_.reset();
}

}  // namespace distlock::rpc
