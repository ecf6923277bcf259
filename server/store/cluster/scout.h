// SPDX-License-Identifier: Apache-2.0
//
// Asks any server of a Cluster for its slots, a replica as well as a primary, on a connection of its own that is there
// for one question. Thread: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/cluster/slot_map.h"
#include "store/redis/link.h"
#include "store/redis/transport.h"

namespace distlock::store {

// A node's view of the whole Cluster.
struct ClusterReport {
  SlotsReport slots;
  std::string from;  // the node's id, or its address when it does not tell
  // As the node is configured; unset: the user may not ask.
  std::optional<core::Duration> node_timeout;
  std::optional<bool> full_coverage;
};

// The question as it goes out on any connection. `done` runs once, or never when the connection is lost before.
void AskForSlots(CommandSender& sender, const ServerAddress& at,
                 std::function<void(absl::StatusOr<ClusterReport>)> done);

class Scout : private Link::Owner {
 public:
  using Done = std::function<void(absl::StatusOr<ClusterReport>)>;

  // `done` runs at most once, from the loop, and may destroy nothing.
  Scout(const Network& network, LinkOptions options, Done done);
  void Start() { link_.Start(); }
  void Stop() { link_.Stop(); }

 private:
  void OnLinkConnected() override;
  void OnLinkDown(const absl::Status& why) override;
  void Finish(absl::StatusOr<ClusterReport> report);

  const ServerAddress address_;
  Done done_;
  Link link_;
};

}  // namespace distlock::store
