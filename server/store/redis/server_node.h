// SPDX-License-Identifier: Apache-2.0
//
// One Redis or Valkey server with one life: the link that takes commands, who the server is, its scripts, and the
// channel on which it tells this broker of hand-offs. A topology is made of these; which server is the right one is the
// topology's to decide. The node makes its parts and tells each of them what the others have found:
//
//   NodeContext   the link, the codec, what is known of the server
//   ServerChecks  whether the server may be used; its hold-off
//   NodeCommands  locks are taken, renewed, given back
//   NodeQueries   locks are shown
//   NodeChannel   hand-offs are heard of
//   NodeClock     the server's clock is watched
//   NodeReport    people are told
//
// Thread: the loop's. StoreUp comes once the link is logged in, the server found fit and all scripts loaded; the first
// one also waits for the channel. From then on StoreDown tells of the link alone, and ChannelUp of each new
// subscription. StoreDown comes before the answers to pending commands, and again when the cause changes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/link.h"
#include "store/redis/node_channel.h"
#include "store/redis/node_clock.h"
#include "store/redis/node_commands.h"
#include "store/redis/node_context.h"
#include "store/redis/node_queries.h"
#include "store/redis/node_report.h"
#include "store/redis/server_checks.h"

namespace distlock::store {

class ServerNode : private Link::Owner, private ServerChecks::Owner, private NodeClock::Owner {
 public:
  using Owner = NodeOwner;
  using Shard = NodeShard;

  // The server at `address`; all else as the options say. Without an address the node waits for MoveTo.
  // `more_scripts`: of NodeCommands::Call; they live for as long as the process. `ttls`: what all nodes of the store
  // have heard.
  ServerNode(const Network& network, const std::optional<ServerAddress>& address, StoreOptions options, Owner* owner,
             const std::vector<const lua::ScriptSource*>& more_scripts = {},
             std::shared_ptr<AssertedTtls> ttls = nullptr);
  ~ServerNode() override;

  void Start();
  void Stop();

  // The server is at `address` now. Both connections to the old one are dropped at once, even if they work: what was
  // sent there and not answered is unknown, the rest not sent.
  void MoveTo(const ServerAddress& address);
  // The node has these slots of a Cluster now. Before Start, and again when they have changed.
  void Place(const Shard& shard);
  // Other brokers may not listen here yet, because the node has just got its first slots.
  void AwaitOthers() { channel_.AwaitOthers(); }
  // The connection is of no use, for this cause: another one is made.
  void LeaveServer(const std::string& cause);
  // The server may be ready now: a connection that waits for its next attempt makes it at once.
  void Hurry();

  NodeCommands& commands() { return commands_; }
  NodeQueries& queries() { return queries_; }
  ServerChecks& checks() { return checks_; }
  // Where other commands than the scripts' may be sent. REQUIRES: up().
  CommandSender& sender() { return context_.link; }

  // The link is ready for commands.
  bool up() const { return context_.up; }
  // While up: the server that takes the commands.
  const ServerIdentity& identity() const { return context_.identity; }
  const ServerClock& clock() const { return context_.clock; }
  // Scripts may take a broker for unreachable when PUBLISH finds no listener.
  bool trusts_publish() const { return context_.codec.trusts_publish(); }

 private:
  void OnLinkConnected() override { checks_.Begin(); }
  void OnLinkDown(const absl::Status& why) override;
  void OnServerFit(const Prepared& prepared) override;
  void OnServerUnfit(const absl::Status& why) override;
  void OnHoldOffChanged() override { context_.Tell(core::ChannelUp{}); }
  void OnCensusTaken() override { report_.TellStatus(); }
  void OnCensusRefused(const std::string& cause) override { commands_.OnRefused(cause); }
  void OnClockStep(core::Duration by) override;
  void OnClockSlew() override { report_.TellStatus(); }

  bool has_address_;  // and so the channel has begun to connect, once started
  NodeContext context_;
  NodeClock clock_;
  ServerChecks checks_;
  NodeReport report_;
  NodeChannel channel_;
  NodeCommands commands_;
  NodeQueries queries_;
};

}  // namespace distlock::store
