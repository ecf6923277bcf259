// SPDX-License-Identifier: Apache-2.0
//
// Lookups: the connection to a broker that all calls with one answer of a Client share, and the watches.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "distlock/client.h"
#include "distlock/v1/admin_service.grpc.pb.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "mutex.h"

namespace distlock::internal {

// Thread-safe. No method may be called in a child of fork.
class Lookups {
 public:
  struct Connection {
    std::string address;
    std::string token_file;  // of ClientOptions
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::LockService::Stub> locks;
    std::unique_ptr<v1::AdminService::Stub> admin;

    // Before each call: shows the broker who calls.
    void Authorize(grpc::ClientContext& call) const;
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  // `addresses`: not empty; the first one is tried first. `options` must outlive this.
  Lookups(const ClientOptions& options, std::vector<std::string> addresses);

  // The broker at this address is preferred from now on.
  void Follow(const std::string& address);

  // A connection over which the broker has answered: the present one while it lasts, else that of the first broker of
  // all that does. Waits for at most `patience`: kUnreachable, with its cause. Ends early when `cancel` stops
  // (kCancelled), and after Close (kClientClosed).
  Result<ConnectionPtr> Find(Duration patience, const std::stop_token& cancel = {});

  // The connection that Find would look at first, in whatever state it is. Null after Close.
  ConnectionPtr Present();

  // Calls in flight must end when this token stops.
  std::stop_token closing() const { return closing_.get_token(); }
  void Close();

 private:
  // One for each address, the present one first; they are made when they are asked for.
  std::vector<ConnectionPtr> All();
  void Use(const ConnectionPtr& found);
  ConnectionPtr Make(const std::string& address) const;

  const ClientOptions& options_;
  std::stop_source closing_;
  Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::string> addresses_ ABSL_GUARDED_BY(mu_);  // the preferred one first
  // One for each address while they are looked for, else only that of the preferred one; null: not made.
  std::vector<ConnectionPtr> connections_ ABSL_GUARDED_BY(mu_);
};

}  // namespace distlock::internal
