// SPDX-License-Identifier: Apache-2.0
//
// Calls that only look at one lock, over the connection that all looks of a Client share. They block their caller; any
// number may run at a time.
#pragma once

#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "core.h"

namespace distlock::internal {

class LeaderLookup {
 public:
  LeaderLookup(std::shared_ptr<Core> core, const std::string& name_space, const std::string& key);

  // One round trip, at most 5 s.
  Result<v1::Lock> Look();

  // Calls `tell` with what the lock is now and after each change, on this thread, until `stop` (kCancelled), the
  // Client's end (kClientClosed), or an answer that no further attempt can change. Attempts that fail are repeated with
  // back-off. A broker that cannot tell changes is asked every second. What `tell` throws comes out.
  Refusal Observe(const std::function<void(const v1::Lock&)>& tell, const std::stop_token& stop);

 private:
  using Connection = Lookups::Connection;
  using TellLock = std::function<void(const v1::Lock&)>;

  grpc::Status Look(Connection& connection, v1::Lock* lock, const std::stop_token& stop) const;
  grpc::Status Watch(Connection& connection, const TellLock& tell, const std::stop_token& stop) const;

  const std::shared_ptr<Core> core_;
  v1::GetLockRequest look_;     // constant after construction
  v1::WatchLockRequest watch_;  // the same
};

}  // namespace distlock::internal
