// SPDX-License-Identifier: Apache-2.0
//
// The connections of a Client: channels to its brokers, each with a connection of its own. Lookups is the connection
// that all calls with one answer share, and the watches; each stream has another.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "distlock/client.h"
#include "distlock/v1/admin_service.grpc.pb.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "mutex.h"

namespace distlock::internal {

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options, const std::string& address);

// Thread-safe. No method may be called in a child of fork.
class Lookups {
 public:
  struct Connection {
    std::unique_ptr<v1::LockService::Stub> locks;
    std::unique_ptr<v1::AdminService::Stub> admin;
  };

  // `options` must outlive this.
  Lookups(const ClientOptions& options, std::string address) : options_(options), address_(std::move(address)) {}

  // Later connections go to this broker.
  void Follow(const std::string& address);

  // The first call after construction and after another address makes the connection. Null after Close.
  std::shared_ptr<Connection> Connect();
  // For each call of a connection: as Stream::Authorize.
  void Authorize(grpc::ClientContext& call);

  // Calls in flight must end when this token stops.
  std::stop_token closing() const { return closing_.get_token(); }
  void Close();

 private:
  const ClientOptions& options_;
  std::stop_source closing_;
  Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::string address_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
};

}  // namespace distlock::internal
