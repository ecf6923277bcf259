// SPDX-License-Identifier: Apache-2.0
//
// The connections of a Client: channels to its address, each with a connection of its own. Lookups is the one that all
// calls share that only look; the stream has another.
#pragma once

#include <absl/synchronization/mutex.h>
#include <grpcpp/channel.h>

#include <memory>
#include <stop_token>

#include "distlock/client.h"
#include "distlock/v1/lock_service.grpc.pb.h"

namespace distlock::internal {

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options);

// Thread-safe. In a child of fork nothing of it may be called.
class Lookups {
 public:
  using Connection = v1::LockService::Stub;

  // `options` must outlive this.
  explicit Lookups(const ClientOptions& options) : options_(options) {}

  // Made by the first call. Null after Close.
  std::shared_ptr<Connection> Connect();

  // Calls that are under way are to end when this token stops.
  std::stop_token closing() const { return closing_.get_token(); }
  void Close();

 private:
  const ClientOptions& options_;
  std::stop_source closing_;
  absl::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);
};

}  // namespace distlock::internal
