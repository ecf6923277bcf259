// SPDX-License-Identifier: Apache-2.0
//
// Turns the events of the shards and the calls into metrics and log lines, and sets the health of the gRPC server by
// the state of the store. No lock's correctness depends on it.
//
// Thread: the observer methods on the shards' and gRPC's threads; Watch, Unwatch and AwaitStore on main's. Outlives the
// shards and the server.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "acceptor/connection.h"
#include "main/metrics.h"
#include "ops/log.h"
#include "rpc/server.h"
#include "shard/shard_set.h"
#include "store/cluster_events.h"
#include "store/node_status.h"
#include "store/quorum_events.h"

namespace distlock {

class Recorder final : public shard::Observer, public rpc::CallObserver, public acceptor::Observer {
 public:
  Recorder(Metrics& metrics, int shards) : metrics_(metrics), up_(shards, false) {}

  void OnQuestionAnswered(shard::Question question, core::Duration took) override;
  void OnFact(const core::Fact& fact) override;
  void OnStoreState(int shard, bool up, const std::string& cause) override;
  void OnLoopLag(core::Duration lag) override;
  void OnStoreReply(core::Verb verb, core::Duration took, bool ok) override;
  void OnStoreFailure(core::Verb verb, std::optional<core::FailureKind> why) override;
  void OnMailboxFull() override;
  void OnStreamClosed(rpc::StreamClose why) override;
  void OnRefusedHere(core::RefusalReason reason) override;
  void OnQueued(uint32_t position) override;
  void OnReleasedNothing() override;
  void OnForceRelease(const rpc::ForcedRelease& forced) override;
  void OnRefused(acceptor::RefuseCause why, const std::string& who) override;
  void OnCut(acceptor::CutCause why, const std::string& who) override;
  void OnDeath() override;
  void OnFolderMade(const std::string& folder) override;

  // For the store's one server, from its first shard's connections.
  void OnNodeStatus(const store::NodeStatus& status);
  // As last told; empty before. Any thread.
  std::vector<store::NodeStatus> StoreNodes();
  // The replicas were asked to confirm what a shard wrote.
  void OnWait(core::Duration took, bool confirmed);

  // For the nodes of a Cluster, from every shard's connections.
  void OnRedirect(store::ClusterEvents::Redirect redirect);
  void OnSlotMapRefresh(store::ClusterEvents::Refresh refresh);
  void OnQuorumRounds(store::QuorumRound kind, uint64_t count);

  // The server whose health follows the store.
  void Watch(rpc::Server* server);
  void Unwatch() { Watch(nullptr); }

  // Both log how many lines the rate limit has suppressed since the last line. LogHeldBack is called about once a
  // second; LogAllHeldBack at the end, and it does not wait for the limit's interval. Any thread.
  void LogHeldBack();
  void LogAllHeldBack();

  // Waits until every shard reaches the store; false when `timeout` passed first.
  bool AwaitStore(core::Duration timeout);

 private:
  bool AllUp() const;
  std::vector<store::NodeStatus> Nodes() const;
  void LogLost(const core::Fact& fact);
  void LogHoldOff(const store::NodeStatus& node);
  static void LogHeldBack(std::optional<uint64_t> lost, std::optional<uint64_t> lapsed);

  Metrics& metrics_;
  // An outage of the store ends every lease at once; ten lines a second are enough to show it.
  ops::LogLimit lost_lines_{absl::Milliseconds(100)};
  ops::LogLimit lapsed_lines_{absl::Milliseconds(100)};
  ops::LogLimit died_lines_{absl::Milliseconds(100)};
  ops::LogLimit refused_lines_{absl::Seconds(10)};
  ops::LogLimit cut_lines_{absl::Seconds(1)};

  // Guarded by mu_.
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<bool> up_;
  bool was_up_ = false;
  std::map<int, store::NodeStatus> nodes_;  // by number
  std::set<int> held_off_;                  // numbers of servers whose hold-off was logged
  rpc::Server* server_ = nullptr;
};

}  // namespace distlock
