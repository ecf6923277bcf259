// SPDX-License-Identifier: Apache-2.0
//
// For operators: the state of this broker, locks taken from their holders, and the order to drain. Calls come in on the
// CallThreads; `frontend` and `admin` outlive it.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distlock/v1/admin_service.grpc.pb.h"
#include "rpc/call_threads.h"
#include "rpc/frontend.h"

namespace distlock::rpc {

// What main knows and hands in. `drain` is called on any thread and answers at once.
struct Admin {
  std::string version;
  std::string store_url;  // without secrets
  absl::Time started;
  std::shared_future<std::vector<std::string>>
      listen;  // as bound; the Server's own, ready soon after its first calls come
  // Starts the drain that SIGTERM starts; unset: the daemon's own timeout. Returns the timeout in force.
  std::function<core::Duration(std::optional<core::Duration> timeout)> drain;
};

template <typename Base>
using RawAdmin = v1::AdminService::WithRawMethod_GetStatus<v1::AdminService::WithRawMethod_ListSessions<
    v1::AdminService::WithRawMethod_ForceRelease<v1::AdminService::WithRawMethod_Drain<Base>>>>;

class AdminService final : public RawAdmin<v1::AdminService::Service> {
 public:
  AdminService(Frontend& frontend, const Admin& admin) : frontend_(frontend), admin_(admin) {}

  // The server, which has this service, runs.
  void Open(CallThreads& threads);

 private:
  Frontend& frontend_;
  const Admin& admin_;
};

// What GetStatus answers, also for the page of the HTTP port.
v1::GetStatusResponse StatusOf(const Frontend& frontend, const Admin& admin);

}  // namespace distlock::rpc
