// SPDX-License-Identifier: Apache-2.0
//
// Read-only calls about one lock, over the connection that all such calls of a Client share. They block their caller;
// any number may run at a time.
#pragma once

#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "core.h"
#include "distlock/inspect.h"

namespace distlock::internal {

// Returns early when `stop` is requested.
void Pause(Duration length, const std::stop_token& stop);

// Returns when its stream ends, or soon after `end` stops.
using WatchOnce = std::function<grpc::Status(Lookups::Connection&, const std::stop_token& end)>;

// Watches at a broker that answers. Of kTryAgain repeats it with back-off, until `stop` is requested (kCancelled), the
// Client is destroyed (kClientClosed), or an answer comes that no further attempt can change.
Refusal WatchAgainAndAgain(Core& core, const WatchOnce& watch, const std::stop_token& stop, WhenInterrupted then);

class LeaderLookup {
 public:
  LeaderLookup(std::shared_ptr<Core> core, const std::string& name_space, const std::string& key);

  // One round trip.
  Result<v1::LockInfo> Look();

  // Calls `tell` on this thread with the lock's present state and after each change, as WatchAgainAndAgain. A broker
  // that cannot report changes is asked every second. Passes on what `tell` throws.
  Refusal Observe(const std::function<void(const v1::LockInfo&)>& tell, const std::stop_token& stop,
                  WhenInterrupted then = WhenInterrupted::kTryAgain);

 private:
  using Connection = Lookups::Connection;
  using TellLock = std::function<void(const v1::LockInfo&)>;

  grpc::Status AskForAWhile(Connection& connection, const TellLock& tell, const std::stop_token& stop) const;
  grpc::Status Watch(Connection& connection, const TellLock& tell, const std::stop_token& stop) const;

  const std::shared_ptr<Core> core_;
  v1::GetLockRequest look_;     // constant after construction
  v1::WatchLockRequest watch_;  // the same
};

}  // namespace distlock::internal
