// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include <algorithm>
#include <utility>

#include "rpc/engine/wire.h"
#include "rpc/fd_identity.h"

namespace distlock::rpc {
namespace {

int Milliseconds(core::Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

// The reflection library adds itself to every server of a process that links it; this option removes it.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

void SetLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.limits.max_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.max_header_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_connection_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.idle_timeout));

  // A dead peer is found after time + timeout; clients may ping as often as min_ping_interval, also between calls.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A tenth less than the option says, because pings that are sent on time may arrive closer together.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(options.min_ping_interval) * 9 / 10);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
}

}  // namespace

Server::Server(const ServerOptions& options, shard::ShardSet& shards, BrokerFacts facts)
    : frontend_(shards, options.limits, options.broker_id, options.observer),
      facts_(std::move(facts)),
      locks_(frontend_),
      admin_service_(frontend_, facts_),
      health_({v1::LockService::service_full_name(), v1::AdminService::service_full_name()}) {
  facts_.listen = bound_.get_future().share();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, shard::ShardSet& shards,
                                                      BrokerFacts facts) {
  TakeOverParserLog();
  std::unique_ptr<Server> server(new Server(options, shards, std::move(facts)));
  if (absl::Status bound = server->Bind(options); !bound.ok()) return bound;
  return server;
}

absl::Status Server::Bind(const ServerOptions& options) {
  grpc::ServerBuilder builder;
  if (options.reflection) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  } else {
    builder.SetOption(std::make_unique<WithoutReflection>());
  }
  SetLimits(options, builder);
  builder.RegisterService(&locks_);
  builder.RegisterService(&admin_service_);
  builder.RegisterService(&health_);
  threads_ = std::make_unique<CallThreads>(builder, [this](const std::string& peer) {
    const bool hidden = !knows_unix_callers_ && peer.starts_with("fd:");
    return hidden ? nullptr : door_->PeerOf(peer);
  });

  door::DoorOptions door = options.door;
  door.tls = options.tls != nullptr;
  auto opened = door::Door::Open(std::move(door));
  if (!opened.ok()) {
    bound_.set_value({});
    return opened.status();
  }
  door_ = *std::move(opened);
  const std::vector<std::string>& listen = door_->addresses();
  const auto is_unix = [](const std::string& address) { return !door::UnixPath(address).empty(); };
  if (!std::all_of(listen.begin(), listen.end(), is_unix)) {
    acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        options.tls == nullptr ? grpc::InsecureServerCredentials()
                               : MakeBrokerCredentials(*options.tls, options.tls_client_auth));
  }
  knows_unix_callers_ = NamesByDescriptorHold();
  server_ = builder.BuildAndStart();
  bound_.set_value(listen);  // calls may wait for the addresses already
  if (server_ == nullptr) return absl::FailedPreconditionError("gRPC cannot start its server; its log tells more");
  locks_.Open(*threads_);
  admin_service_.Open(*threads_);
  health_.Open(*threads_);
  threads_->Start();
  ShowHealth();
  door_->Start([this](int fd, int listener_fd, const door::Visitor& visitor) { HandOver(fd, listener_fd, visitor); });
  return absl::OkStatus();
}

void Server::HandOver(int fd, int listener_fd, const door::Visitor& visitor) {
  if (visitor.kind == door::Kind::kUnix) return grpc::AddInsecureChannelFromFd(server_.get(), fd);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener_fd;
  connection.fd = fd;
  acceptor_->HandleNewConnection(&connection);
}

Server::~Server() { Stop({}); }

void Server::ShowHealth() {
  std::lock_guard lock(health_mu_);
  health_.Set(store_up_.load(std::memory_order_relaxed) && !frontend_.admission.draining());
}

void Server::SetStoreUp(bool up) {
  if (store_up_.exchange(up, std::memory_order_relaxed) != up) ShowHealth();
}

void Server::Drain() {
  frontend_.admission.Drain();
  ShowHealth();
}

void Server::Stop(core::Duration grace) {
  if (server_ == nullptr) return;
  Drain();
  door_->StopAccepting();
  frontend_.admission.StopStreams();
  health_.Stop();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::microseconds>(grace));
  threads_->Stop();
  server_.reset();
}

}  // namespace distlock::rpc
