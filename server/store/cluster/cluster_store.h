// SPDX-License-Identifier: Apache-2.0
//
// The store of a Redis or Valkey Cluster: each lock is at the primary that has its slot. The store is up while any
// primary is; locks of the others are refused as not available, and asked for again by the core.
//
// Thread: the loop's, as Store says. After Stop the network must go on until what it has under way is over.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/store_traits.h"
#include "store/cluster/cluster_commands.h"
#include "store/cluster/cluster_nodes.h"
#include "store/redis/pending_queries.h"
#include "store/store.h"

namespace distlock::store {

class ClusterStore : public Store, private ClusterNodes::Owner {
 public:
  // Each primary has all locks of its slots, and all subscribers of a channel of them. Where a server knows no such
  // channels, its node does not trust what it counts.
  static constexpr core::StoreTraits kTraits{.takes_many_at_once = false,
                                             .counts_listeners = true,
                                             .can_fail_over = true,
                                             .clock_spread = std::chrono::milliseconds(10)};

  ClusterStore(const Network& network, const StoreOptions& options);
  ~ClusterStore() override { Stop(); }

  void Start(StoreListener* listener) override;
  void Submit(core::StoreCommand&& command) override { commands_.Submit(std::move(command)); }
  void Flush() override { commands_.Flush(); }
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done) override;
  // The page token names a node, and what that node's own token is. Node after node, by their ids.
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done) override;
  bool AllServersAreUp() const override { return nodes_.all_up(); }
  void Stop() override;

 private:
  struct PendingInspect {
    core::LockName name;
    uint32_t max_waiters = 0;
    core::Duration timeout{};
    PendingQueries::Id id = 0;
    std::function<void(absl::StatusOr<LockView>)> done;
  };

  void OnNodeInput(NodeNumber from, core::Input&& input) override;
  bool OnNodeRedirect(NodeNumber from, core::OpId op, std::string_view error) override;
  void OnNodesChanged() override;

  // Tells that the store is up: once all of it is, or a part of it has been for a while.
  void TellUpWhenReady();
  void TellUp();
  void Tell(core::Input&& input);
  void InspectAt(const std::shared_ptr<PendingInspect>& pending);
  void InspectLater(const std::shared_ptr<PendingInspect>& pending);
  // Calls `done` from the loop.
  void RefuseSoon(PendingQueries::Id id, absl::Status why);

  const std::shared_ptr<Timers> timers_;
  StoreListener* listener_ = nullptr;  // null before Start and after Stop
  bool told_up_ = false;
  bool renew_all_ = false;  // with the next StoreUp
  std::string told_cause_;  // of the last StoreDown, "" since StoreUp
  ClusterNodes nodes_;
  ClusterCommands commands_;
  PendingQueries queries_;
  uint64_t told_changes_ = 0;  // of the map
  std::vector<std::function<void()>> later_;
  const std::unique_ptr<Timer> later_timer_;
  const std::unique_ptr<Timer> settle_timer_;
  const std::unique_ptr<Timer> moved_timer_;
};

}  // namespace distlock::store
