// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "acceptor/connection.h"
#include "contract/ids.h"
#include "rpc/engine/wire.h"
#include "store/node_status.h"

namespace distlock::rpc {
namespace {

int Milliseconds(core::Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

void SetLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.limits.max_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(options.max_header_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_connection_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000);
  // A stream that is not read for a while holds up its sender, and little memory here.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, static_cast<int>(acceptor::kStreamWindow));
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

Encryption EncryptionOf(const ServerOptions& options) {
  return {.shelf = options.tls, .client_auth = options.tls_client_auth};
}

}  // namespace

Server::Server(const ServerOptions& options, shard::ShardSet& shards, BrokerFacts facts,
               const AdminAuthorizer::Plan& admin)
    : frontend_(shards, options.limits, options.broker_id, options.observer,
                options.authorizer == nullptr ? open_ : *options.authorizer, options.unix_peer_of),
      facts_(std::move(facts)),
      locks_(frontend_),
      admin_service_(frontend_, facts_, admin.authorizer),
      health_({v1::LockService::service_full_name(), v1::AdminService::service_full_name()}) {
  frontend_.store_id = facts_.store_id;
  if (facts_.store_nodes) {
    frontend_.store_held_off = [nodes = facts_.store_nodes] { return store::IsHeldOff(nodes()); };
  }
  facts_.listen = bound_.get_future().share();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, shard::ShardSet& shards,
                                                      BrokerFacts facts) {
  TakeOverParserLog();
  AdminAuthorizer::Plan admin;
  if (absl::Status planned = AdminAuthorizer::MakePlan(options.acceptor.listen, options.admin_listen, &admin);
      !planned.ok()) {
    return planned;
  }
  // Each caller has proven to be somebody then, and the policy says what that one may do.
  if (options.admin_listen.empty() && options.authorizer != nullptr && options.authorizer->enforces())
    admin.authorizer.tcp_peers = true;
  std::unique_ptr<Server> server(new Server(options, shards, std::move(facts), admin));
  if (absl::Status bound = server->Bind(options); !bound.ok()) return bound;
  if (!admin.own.empty()) {
    acceptor::AcceptorOptions own_door = options.acceptor;
    own_door.listen = admin.own;
    own_door.inherited.clear();
    own_door.watch_processes = {};
    auto own = AdminListener::Start(std::move(own_door), EncryptionOf(options), server->frontend_, server->facts_);
    if (!own.ok()) return own.status();
    server->own_admin_ = *std::move(own);
  }
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
  threads_ = std::make_unique<CallThreads>(
      builder, [this](const std::string& grpc_peer) { return acceptor_.ConnectionOf(grpc_peer); });
  if (absl::Status opened = acceptor_.Open(options.acceptor, EncryptionOf(options), builder); !opened.ok()) {
    bound_.set_value({});
    return opened;
  }
  frontend_.deaths = acceptor_.deaths();
  server_ = builder.BuildAndStart();
  bound_.set_value(acceptor_.addresses());  // calls may wait for the addresses already
  if (server_ == nullptr) return absl::FailedPreconditionError("gRPC cannot start its server; its log tells more");
  locks_.Open(*threads_);
  admin_service_.Open(*threads_);
  health_.Open(*threads_);
  threads_->Start();
  ShowHealth();
  acceptor_.Start(*server_);
  return absl::OkStatus();
}

InsidePass Server::OpenInside() {
  InsidePass pass{.secret = contract::RandomHex(16)};
  frontend_.inside.Open(pass.secret);
  grpc::ChannelArguments any;
  any.SetMaxReceiveMessageSize(-1);
  pass.channel = server_->InProcessChannel(any);
  return pass;
}

Server::~Server() { Stop({}); }

std::string Server::DeadListener() const {
  std::string dead = acceptor_.DeadListener();
  return dead.empty() && own_admin_ != nullptr ? own_admin_->DeadListener() : dead;
}

size_t Server::connections() const {
  return acceptor_.connections() + (own_admin_ == nullptr ? 0 : own_admin_->connections());
}

void Server::ShowHealth() {
  std::lock_guard lock(health_mu_);
  health_.Set(store_up_.load(std::memory_order_relaxed) && !frontend_.admission.draining());
}

void Server::SetStoreUp(bool up) {
  if (store_up_.exchange(up, std::memory_order_relaxed) != up) ShowHealth();
}

void Server::Review() {
  constexpr size_t kTogether = 1000;
  uint64_t after = 0;
  while (true) {
    const auto streams = frontend_.admission.StreamsAfter(after, kTogether);
    for (const auto& [id, stream] : streams) stream->Review();
    if (streams.size() < kTogether) return;
    after = streams.back().first;
  }
}

bool Server::MayEverybodyList(std::optional<std::string_view> ns, std::string_view prefix) const {
  if (!frontend_.authorizer.asks()) return true;
  const Subject nobody = frontend_.authorizer.As({});
  return nobody.rights == nullptr || nobody.rights->MayAll(access::Verb::kList, ns, prefix).allowed;
}

void Server::Drain() {
  frontend_.admission.Drain();
  ShowHealth();
}

void Server::Stop(core::Duration grace) {
  if (server_ == nullptr) return;
  Drain();
  acceptor_.StopAccepting();
  frontend_.admission.StopStreams();
  health_.Stop();
  if (own_admin_ != nullptr) own_admin_->Stop(grace);
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::microseconds>(grace));
  threads_->Stop();
  if (frontend_.deaths != nullptr) frontend_.deaths->Stop();
  server_.reset();
}

}  // namespace distlock::rpc
