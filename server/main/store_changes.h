// SPDX-License-Identifier: Apache-2.0
//
// Changes of a store as a whole while the broker runs: AdminService.UpgradeStore and InitQuorum. One change at a
// time, on connections and a thread of its own; it writes the log when it is over. A broker that waits for InitQuorum
// looks every few seconds whether another broker has done that.
//
// Thread: any. Destruction ends a change that is under way, whose caller then hears nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "core/types.h"
#include "main/store_setup.h"
#include "store/store_options.h"

namespace distlock {

class StoreChanges {
 public:
  // OK: it is done. Unavailable: a server cannot be reached, or another change is under way. Others: why nothing was
  // changed.
  using Changed = std::function<void(const absl::Status&)>;

  // `timeout`: of each look at the servers. `longest_ttl`: of any lease of this broker.
  StoreChanges(const StoreSetup& setup, core::Duration timeout, core::Duration longest_ttl);
  ~StoreChanges();
  StoreChanges(const StoreChanges&) = delete;
  StoreChanges& operator=(const StoreChanges&) = delete;

  // Raises the schema that brokers write. No server is changed unless all of them can be.
  void Upgrade(uint32_t to, const std::string& caller, const Changed& changed);
  // Makes the servers of the URL one quorum. A broker that has waited for that opens the store.
  void InitQuorum(bool all_brokers_stopped, const std::string& caller, const Changed& changed);

 private:
  void Run(const std::string& what, const std::string& caller, std::function<absl::Status()> change,
           const Changed& changed);
  // Starts it on a thread of its own; an error: it is not started.
  absl::Status Begin(const std::string& what, const std::string& caller, std::function<absl::Status()> change,
                     Changed changed);
  absl::Status DoUpgrade(uint32_t to) const;
  absl::Status DoInitQuorum(bool all_brokers_stopped) const;
  absl::Status Check(store::StoreOptions options) const;
  // Until the servers are this broker's.
  void Watch();

  // Const after construction.
  const store::StoreOptions options_;
  const std::string shown_;
  const core::Duration timeout_;
  const core::Duration longest_ttl_;
  const std::shared_ptr<std::atomic<bool>> may_open_;

  std::atomic<bool> stopped_ = false;

  // Guarded by mu_.
  std::mutex mu_;
  std::condition_variable stops_;
  bool busy_ = false;
  std::thread thread_;
  std::thread watcher_;  // const after construction
};

}  // namespace distlock
