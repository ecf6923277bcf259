// SPDX-License-Identifier: Apache-2.0
//
// gRPC's standard health service: all services of this server are serving, or none is. The library's own implementation
// would start gRPC's callback threads (see call_threads.h).
//
// Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "rpc/engine/call_threads.h"

namespace distlock::rpc {

template <typename Base>
using RawHealth = grpc::health::v1::Health::WithRawMethod_Check<grpc::health::v1::Health::WithRawMethod_Watch<Base>>;

class HealthWatch;

class HealthService final : public RawHealth<grpc::health::v1::Health::Service> {
 public:
  // `services`: full names. NOT_SERVING until Set(true).
  explicit HealthService(std::vector<std::string> services);

  // Starts to accept calls. The server of this service must run already.
  void Open(CallThreads& threads);

  void Set(bool serving);
  // Ends every watch, also those that come later.
  void Stop();

 private:
  friend class HealthWatch;
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  using Watches = std::set<std::shared_ptr<HealthWatch>>;

  Status StatusOf(const std::string& service) const;
  void Check(UnaryReactor::Call call);
  void Watch(WriteReactor::Call call);
  void Forget(const std::shared_ptr<HealthWatch>& watch);
  // Calls `what` under mu_, and returns the watches that the caller must notify after unlocking it.
  template <typename What>
  Watches Change(What what);

  const std::vector<std::string> services_;

  mutable std::mutex mu_;
  bool serving_ = false;
  bool stopped_ = false;
  Watches watches_;
};

}  // namespace distlock::rpc
