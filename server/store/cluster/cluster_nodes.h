// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a Cluster that have slots, as far as this broker knows: which they are, and a connection to each. The
// map is asked for at any of them; at the seeds while none can be asked, and each other time while the map lacks slots.
//
// Thread: the loop's. A node stays until it has had no slot and no command out for a while.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "store/cluster/map_refresh.h"
#include "store/cluster/scout.h"
#include "store/cluster/slot_map.h"
#include "store/redis/server_node.h"
#include "store/redis/transport.h"
#include "store/store_options.h"

namespace distlock::store {

class ClusterNodes {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // As ServerNode::Owner.
    virtual void OnNodeInput(NodeNumber from, core::Input&& input) = 0;
    virtual bool OnNodeRedirect(NodeNumber from, core::OpId op, std::string_view error) = 0;
    // The map, or who can be reached, is another now.
    virtual void OnNodesChanged() = 0;
  };

  // The owner and the network outlive it.
  ClusterNodes(const Network& network, const StoreOptions& options, Owner* owner);
  ~ClusterNodes();

  void Start();
  void Stop();

  NodeNumber At(Slot slot) const { return map_.At(slot); }
  // Null: there is none of that number.
  ServerNode* Node(NodeNumber number) const;
  const ServerAddress& Address(NodeNumber number) const { return map_.nodes()[number]->address; }
  const SlotMap& map() const { return map_; }

  // `by` says that the slot is at `to`.
  void Moved(Slot slot, const ServerAddress& to, NodeNumber by);
  // The number of the node at `address`, which is connected to if it was not known.
  NodeNumber NodeAt(const ServerAddress& address);
  // The map may be old.
  void Doubt();
  // A node has answered so, instead of running a command.
  void Count(ClusterEvents::Redirect redirect) {
    if (options_.cluster_events.on_redirect) options_.cluster_events.on_redirect(redirect);
  }
  // A command for the node was taken up, or has ended.
  void Took(NodeNumber number) { ++members_[number]->out; }
  void Ended(NodeNumber number) { --members_[number]->out; }

  bool any_up() const;
  // All with slots are; false before there is a map.
  bool all_up() const;
  // Why it cannot be used, for people.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Member : ServerNode::Owner {
    Member(ClusterNodes* nodes, NodeNumber own_number) : of(nodes), number(own_number) {}
    void OnNodeInput(core::Input&& input) override { of->OnInput(*this, std::move(input)); }
    bool OnNodeRedirect(core::OpId op, std::string_view error) override {
      return of->owner_->OnNodeRedirect(number, op, error);
    }
    void OnNodeMoved(const std::string& error) override { of->OnMoved(*this, error); }

    ClusterNodes* const of;
    const NodeNumber number;
    ServerAddress address;
    std::unique_ptr<ServerNode> node;
    std::optional<Slot> lowest, highest;  // of the slots that it was told of
    bool later = false;                   // the Cluster was known before it
    bool started = false;
    bool up = false;
    size_t out = 0;                           // commands
    std::optional<core::Instant> idle_since;  // when it was seen without slots
  };

  void OnInput(Member& member, core::Input&& input);
  void OnMoved(const Member& member, const std::string& error);
  // Makes the members what the map says.
  void Follow();
  void Add(NodeNumber number);
  StoreOptions OptionsOf(NodeNumber number);
  void TellStatus(NodeNumber number, NodeStatus status);
  void RetireIdle();
  void Retire(NodeNumber number);

  void Ask();
  void AskSomebody();
  void OnReport(absl::StatusOr<ClusterReport> report);
  // Once, by the first report that is adopted.
  void Judge(const ClusterReport& report);
  bool Unserved() const;
  void Wake();
  void SetTimer();
  void Report(const absl::Status& why);
  void Warn(const std::string& text);

  // Const after construction.
  const Network network_;
  const StoreOptions options_;
  Owner* const owner_;

  bool started_ = false;
  bool has_map_ = false;
  SlotMap map_;
  const std::shared_ptr<AssertedTtls> ttls_ = std::make_shared<AssertedTtls>();
  MapRefresh refresh_;
  std::vector<std::unique_ptr<Member>> members_;  // by number; null where there is none
  std::vector<std::unique_ptr<Member>> ended_;    // destroyed by timer_, outside of their own callbacks
  std::unique_ptr<Scout> scout_;
  std::vector<std::unique_ptr<Scout>> ended_scouts_;
  uint64_t ask_ = 0;                   // counts questions
  std::optional<NodeNumber> asked_;    // of the question under way
  std::optional<NodeNumber> prefers_;  // who knows more than others
  size_t next_seed_ = 0;
  bool asked_seed_ = false;  // by the last question
  std::optional<core::Duration> node_timeout_;
  std::string trouble_ = "the Cluster's slots are not known yet";
  std::string reported_;
  std::set<std::string> warned_;
  std::minstd_rand random_;
  const std::unique_ptr<Timer> timer_;
};

}  // namespace distlock::store
