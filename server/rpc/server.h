// SPDX-License-Identifier: Apache-2.0
//
// The gRPC server: addresses, limits of a connection, keepalive, health, reflection, and graceful stop.
//
// Owned by main. Start and Stop on main's thread; the rest on any. `shards` outlives it: main stops it before the
// shards.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/limits.h"
#include "door/door.h"
#include "rpc/admin_service.h"
#include "rpc/engine/call_threads.h"
#include "rpc/frontend.h"
#include "rpc/health.h"
#include "rpc/lock_service.h"
#include "rpc/tls.h"

namespace distlock::rpc {

struct ServerOptions {
  door::DoorOptions door;         // where to listen, and who may come in
  const TlsShelf* tls = nullptr;  // null: TCP in plain text. Outlives the server
  TlsClientAuth tls_client_auth = TlsClientAuth::kOff;
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
  std::string DeadListener() const { return door_->DeadListener(); }
  size_t connections() const { return door_->connections(); }
  // How many connections it may have: fewer than asked for where the limit of open files is low.
  size_t max_connections() const { return door_->max_connections(); }
  // False: callers of unix sockets are not told apart, because this gRPC hides which connection a call came on.
  bool knows_unix_callers() const { return knows_unix_callers_; }

  // As bound, with the port that the kernel chose.
  const std::vector<std::string>& addresses() const { return facts_.listen.get(); }
  v1::GetStatusResponse Status() const { return BrokerStatus(frontend_, facts_); }

  void SetStoreUp(bool up);
  // NOT_SERVING from now on; new Hold, Session and Acquire are refused. Open streams and calls go on.
  void Drain();
  // Ends all streams with DRAINING, gives calls `grace` to end by themselves, cancels the rest, and returns when the
  // last one has ended.
  void Stop(core::Duration grace);

 private:
  Server(const ServerOptions& options, shard::ShardSet& shards, BrokerFacts facts);
  absl::Status Bind(const ServerOptions& options);
  void ShowHealth();
  void HandOver(int fd, int listener_fd, const door::Visitor& visitor);

  Frontend frontend_;
  std::promise<std::vector<std::string>> bound_;
  BrokerFacts facts_;
  LockService locks_;
  AdminService admin_service_;
  std::mutex health_mu_;  // held while the state is read and set, so that the newest state is set last
  HealthService health_;
  bool knows_unix_callers_ = false;
  std::unique_ptr<door::Door> door_;      // outlives all calls
  std::unique_ptr<CallThreads> threads_;  // outlives server_
  // For TCP connections; null when there are none.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> store_up_ = false;
};

}  // namespace distlock::rpc
