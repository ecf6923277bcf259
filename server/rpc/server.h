// SPDX-License-Identifier: Apache-2.0
//
// The gRPC server: addresses, limits of a connection, keepalive, health, reflection, and graceful stop.
//
// Owned by main. Start and Stop on main's thread; the rest on any. `shards` outlives it: main stops it before the
// shards.
#pragma once

#include <grpcpp/server.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/limits.h"
#include "rpc/admin_authorizer.h"
#include "rpc/admin_listener.h"
#include "rpc/admin_service.h"
#include "rpc/engine/call_threads.h"
#include "rpc/frontend.h"
#include "rpc/grpc_acceptor.h"
#include "rpc/health.h"
#include "rpc/lock_service.h"
#include "rpc/tls.h"

namespace distlock::rpc {

struct ServerOptions {
  acceptor::AcceptorOptions acceptor;  // where to listen, and who may come in
  const TlsShelf* tls = nullptr;       // null: TCP in plain text. Outlives the server
  TlsClientAuth tls_client_auth = TlsClientAuth::kOff;
  // Where Drain and ForceRelease are served: addresses of `acceptor.listen`, or others, which then serve AdminService
  // alone. Empty: the unix sockets of `acceptor.listen`, and with a policy all of it.
  std::vector<std::string> admin_listen;
  contract::Limits limits;
  std::string broker_id;
  CallObserver* observer = nullptr;  // may be null; outlives the server

  size_t max_header_bytes = 8 * 1024;
  int max_connection_streams = 2'000;
  core::Duration keepalive_time = std::chrono::seconds(10);
  core::Duration keepalive_timeout = std::chrono::seconds(5);
  core::Duration min_ping_interval = std::chrono::seconds(5);
  core::Duration idle_timeout = std::chrono::minutes(10);  // of a connection without calls
  bool reflection = false;

  Authorizer* authorizer = nullptr;  // who may do what; null: everybody may do everything. Outlives the server
  access::UnixPeerOf unix_peer_of;   // in place of what the acceptor knows of unix sockets; may be empty
};

class Server {
 public:
  // FailedPrecondition, in one line, when it cannot listen on an address. Health is NOT_SERVING until SetStoreUp(true).
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options, shard::ShardSet& shards,
                                                       BrokerFacts facts);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Whether the listeners still accept: "", or the address of one that does not.
  std::string DeadListener() const;
  size_t connections() const;
  // The bytes of events that wait to be written to Session streams.
  int64_t unwritten_bytes() const { return frontend_.admission.unwritten_bytes(); }
  // How many connections it may have: fewer than asked for where the limit of open files is low.
  size_t max_connections() const { return acceptor_.max_connections(); }
  // False: callers of unix sockets are not told apart, because this gRPC hides which connection a call came on.
  bool knows_unix_callers() const { return acceptor_.knows_unix_callers(); }

  // As bound, with the port that the kernel chose.
  const std::vector<std::string>& addresses() const { return facts_.listen.get(); }
  // Those of admin_listen that are not in `listen`, as bound.
  std::vector<std::string> admin_addresses() const {
    return own_admin_ == nullptr ? std::vector<std::string>() : own_admin_->addresses();
  }
  // For a caller in this process that calls for others. Call once, before it calls.
  InsidePass OpenInside();

  // As of CallThreads. Not once Stop was called.
  void AfterTurns(std::function<void()> done) { threads_->AfterTurns(std::move(done)); }

  v1::GetStatusResponse Status() const { return BrokerStatus(frontend_, facts_); }

  void SetStoreUp(bool up);
  // Applies a change of the authorizer: ends the streams whose callers may not have them any more.
  void Review();
  // Whether a caller without proof may list these on the status page. nullopt: in all namespaces.
  bool MayEverybodyList(std::optional<std::string_view> ns, std::string_view prefix = "") const;
  // NOT_SERVING from now on; new Hold, Session and Acquire are refused. Open streams and calls go on.
  void Drain();
  // Ends all streams with DRAINING, gives calls `grace` to end by themselves, cancels the rest, and returns when the
  // last one has ended.
  void Stop(core::Duration grace);

 private:
  Server(const ServerOptions& options, shard::ShardSet& shards, BrokerFacts facts, const AdminAuthorizer::Plan& admin);
  absl::Status Bind(const ServerOptions& options);
  void ShowHealth();

  Authorizer open_{{}};  // when no other is given
  Frontend frontend_;
  std::promise<std::vector<std::string>> bound_;
  BrokerFacts facts_;
  LockService locks_;
  AdminService admin_service_;
  std::mutex health_mu_;  // held while the state is read and set, so that the newest state is set last
  HealthService health_;
  GrpcAcceptor acceptor_;                 // outlives all calls
  std::unique_ptr<CallThreads> threads_;  // outlives server_
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<AdminListener> own_admin_;  // null: no address of its own
  std::atomic<bool> store_up_ = false;
};

}  // namespace distlock::rpc
