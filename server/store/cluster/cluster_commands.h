// SPDX-License-Identifier: Apache-2.0
//
// The commands that are out: each is sent to the node that has its lock's slot, again to another one when it is
// redirected, and answered once. Commands of one lock keep their order (lock_lanes.h). A renewal of many locks is one
// call for each lock, and its answers are put together.
//
// Thread: the loop's. The nodes outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/messages.h"
#include "store/cluster/cluster_nodes.h"
#include "store/cluster/lock_lanes.h"
#include "store/redis/transport.h"

namespace distlock::store {

class ClusterCommands {
 public:
  using Pass = std::function<void(core::StoreReply&& reply)>;

  // Answers are passed to `pass`, never from within Submit or Flush.
  ClusterCommands(const std::shared_ptr<Timers>& timers, const std::string& key_prefix, ClusterNodes* nodes, Pass pass);

  void Submit(core::StoreCommand&& command);
  void Flush();
  void Stop();

  // The node `from` replied.
  void OnReply(core::StoreReply&& reply);
  // True: it is dealt with.
  bool OnRedirect(NodeNumber from, core::OpId op, std::string_view error);

  Slot SlotOfLock(const core::LockName& lock) const;

 private:
  struct Out {
    core::StoreCommand command;  // under our own number
    core::OpId asked = 0;        // the number that the core knows
    size_t item = 0;             // of a renewal
    Slot slot = 0;
    NodeNumber at = kNoNode;  // while it is out
  };
  struct Renewal {
    core::RenewDoneBatch done;
    size_t left = 0;  // items without an answer
  };

  void Enter(Out&& out);
  void Send(LockLanes::CommandId id, NodeNumber node, bool asking);
  // Sends what the lanes let go on, and answers what they gave up.
  void Perform(const LockLanes::Steps& steps);
  void Answer(const Out& out, core::StoreReply&& reply);
  void AnswerItem(const Out& out, core::StoreReply&& reply);
  Out Take(LockLanes::CommandId id);
  void FlushTouched();

  // Const after construction.
  ClusterNodes* const nodes_;
  const Pass pass_;
  const std::string key_head_;  // before the name in a key

  LockLanes lanes_;
  LockLanes::CommandId last_id_ = 0;
  absl::flat_hash_map<LockLanes::CommandId, std::unique_ptr<Out>> out_;
  absl::flat_hash_map<core::OpId, Renewal> renewals_;
  std::vector<NodeNumber> touched_;     // sent to since their last flush
  std::vector<core::StoreReply> late_;  // answered by late_timer_
  const std::unique_ptr<Timer> late_timer_;
};

}  // namespace distlock::store
