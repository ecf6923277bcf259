// SPDX-License-Identifier: Apache-2.0
//
// The shared parts of a node: the options, the connection that takes commands, and what is known of the server at its
// other end. It takes no decisions.
//
// Thread: the loop's. Ownership: the ServerNode owns it; parts keep a reference to it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/redis/codec.h"
#include "store/redis/link.h"
#include "store/redis/script_caller.h"
#include "store/redis/server_clock.h"
#include "store/redis/server_identity.h"
#include "store/redis/transport.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

// Outlives the node. Gets the inputs of the core, as StoreListener does: none from within Submit, none after Stop.
class NodeOwner {
 public:
  virtual ~NodeOwner() = default;
  virtual void OnNodeInput(core::Input&& input) = 0;

  // For a Cluster's node only. The server has not run the command `op`, and says so by `error`: MOVED, ASK, TRYAGAIN or
  // CLUSTERDOWN. True: the owner answers for it from now on; it gets no StoreReply.
  virtual bool OnNodeRedirect(core::OpId /*op*/, std::string_view /*error*/) { return false; }
  // Slots have left the node. `error`: its MOVED of one of them; "": it did not say where they are.
  virtual void OnNodeMoved(const std::string& /*error*/) {}
};

// Where a node's own keys and channel are in a Cluster.
struct NodeShard {
  std::string tag;        // of the channel and the census: a slot of the node; "": it has none
  std::string other_tag;  // of another slot of it, if it has more than one
  bool operator==(const NodeShard&) const = default;
};

// The `salt` makes the jitter of a node's connections differ.
LinkOptions MakeLinkOptions(const std::optional<ServerAddress>& address, const StoreOptions& options, uint64_t salt);

class NodeContext {
 public:
  NodeContext(const Network& network, const std::optional<ServerAddress>& address, StoreOptions store_options,
              NodeOwner* node_owner, Link::Owner* link_owner, std::function<void(const std::string&)> leave);

  // Nothing happens unless the node was started.
  void Tell(core::Input&& input);
  // Each cause once.
  void TellDown(const std::string& cause);
  bool HasShardChannel() const { return shard && shard_channels && !shard->tag.empty(); }

  // Const after construction.
  const StoreOptions options;
  const std::shared_ptr<Timers> timers;
  NodeOwner* const owner;
  // Another connection is made, for the cause that is given.
  const std::function<void(const std::string& cause)> leave_server;

  bool started = false;  // and not stopped
  bool up = false;       // the link is ready for commands
  bool was_up = false;
  ServerIdentity identity;                       // while up: of the server that takes the commands
  std::string place;                             // for people, since MoveTo: where it is, which the URL does not say
  std::string down_cause = "not connected yet";  // why it is not up
  std::string told_cause;                        // of the last StoreDown, "" since StoreUp
  std::optional<NodeShard> shard;                // of a Cluster's node
  bool shard_channels = true;                    // the server can have them

  ServerClock clock;
  Codec codec;
  Link link;
  ScriptCaller scripts;
};

}  // namespace distlock::store
