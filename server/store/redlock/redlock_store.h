// SPDX-License-Identifier: Apache-2.0
//
// The store of several independent servers: one node for each, and the ballot between them and the core.
//
// Thread: the loop's, as Store says. After Stop the network must go on until what it has under way is over.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/store_traits.h"
#include "store/redis/server_node.h"
#include "store/redlock/ballot/ballot.h"
#include "store/redlock/ballot/membership.h"
#include "store/redlock/lock_pages.h"
#include "store/redlock/vote_codec.h"
#include "store/store.h"

namespace distlock::store {

class RedlockStore : public Store {
 public:
  // A permit would be counted at each server apart: with q of N servers for each holder, more would fit than the limit.
  static constexpr core::StoreTraits kTraits{
      .takes_many_at_once = false, .counts_listeners = true, .has_permits = false, .is_quorum = true};

  // For options.url.servers.
  RedlockStore(const Network& network, const StoreOptions& options);
  ~RedlockStore() override { Stop(); }

  void Start(StoreListener* listener) override;
  void Submit(core::StoreCommand&& command) override;
  void Flush() override;
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done) override;
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done) override;
  bool AllServersAreUp() const override;
  void Stop() override;

  // For tests.
  size_t in_flight() const { return listener_ == nullptr ? 0 : ballot_.in_flight(); }

 private:
  // One server, and what it tells.
  struct Node : ServerNode::Owner {
    Node(RedlockStore* its_store, ballot::NodeIndex its_index) : store(its_store), index(its_index) {}
    void OnNodeInput(core::Input&& input) override { store->OnNodeInput(*this, std::move(input)); }

    RedlockStore* const store;
    const ballot::NodeIndex index;
    std::unique_ptr<ServerNode> server;
    NodeStatus status;  // the last that it told
    ballot::NodeFitness told;
    bool is_in = false;    // the ballot has been told that it is up
    bool forgot = false;   // since the ballot was told so last, it came up as another run
    bool asked = false;    // for its mark
    std::string told_why;  // why it is no member, as it was reported last
    bool warned = false;   // of its replicas
    ballot::LastSeen seen;
  };

  static ballot::Config ConfigFor(const StoreOptions& options);
  StoreOptions OptionsFor(ballot::NodeIndex index);
  void OnNodeInput(Node& node, core::Input&& input);
  void OnNodeStatus(Node& node, const NodeStatus& status);
  // Tells the ballot whether the server counts, if that has changed.
  void SyncFitness(Node& node);
  std::string Misfit(const Node& node) const;
  // A server takes part once it carries the mark of this quorum.
  void AskMark(Node& node, std::string_view mark, VoteCodec::MarkHow how);
  void OnMark(Node& node, const Answer& answer);
  void DecideMembers();
  void ReportMembers();
  void MarkServers(uint32_t nodes, VoteCodec::MarkHow how);
  // Marks all anew, if no broker can have a lease of theirs any more and no server has a lock that is held.
  void ReplaceMarks();
  void OnHeldLocks(const Node& node, const absl::StatusOr<LockPage>& page);
  void Report(const absl::Status& problem);
  void TellStatus(const Node& node);
  LockPages::Servers Servers() const;

  void Step(ballot::Input&& input);
  void Send(const ballot::SendTo& send);
  // Passes on what is for the core; in order, and never from within Submit.
  void Deliver();
  void SetTimer();
  void CountRounds();

  // Const after construction.
  const StoreOptions options_;
  const std::shared_ptr<Timers> timers_;
  const VoteCodec codec_;

  StoreListener* listener_ = nullptr;  // null before Start and after Stop
  ballot::Ballot ballot_;
  std::array<uint64_t, kQuorumRounds> counted_{};  // rounds of the ballot that were told
  ballot::Membership members_;
  bool marked_ = false;       // by this store
  bool marks_ = true;         // false: with --quorum-new, another broker marks them
  bool replacing_ = false;    // ReplaceMarks looks for locks
  size_t without_locks_ = 0;  // servers on which no lock is held, of ReplaceMarks
  std::vector<std::unique_ptr<Node>> nodes_;
  std::deque<core::Input> for_core_;
  bool delivering_ = false;
  bool submitting_ = false;
  const std::unique_ptr<Timer> timer_;
  const std::unique_ptr<Timer> deliver_timer_;
  const std::unique_ptr<Timer> members_timer_;
  LockPages pages_;
};

}  // namespace distlock::store
