// SPDX-License-Identifier: Apache-2.0
//
// The channel on which a node's server tells of hand-offs, and what follows from it. It must belong to the server that
// takes the commands: both connections read the server's identity. Only while the two are the same may scripts trust
// what PUBLISH counts; otherwise one of the connections is made anew.
//
// Thread: the loop's.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/redis/node_clock.h"
#include "store/redis/node_context.h"
#include "store/redis/node_report.h"
#include "store/redis/notice_channel.h"
#include "store/redis/preparation.h"

namespace distlock::store {

class NodeChannel : private NoticeChannel::Owner {
 public:
  NodeChannel(const Network& network, const std::optional<ServerAddress>& address, NodeContext& context,
              NodeClock& clock, NodeReport& report);

  // The link is started by the first subscription, so that no grant can be handed to this broker before it listens.
  void Start() { channel_.Start(); }
  void Stop();
  // As of Link.
  void MoveTo(const ServerAddress& address, const std::string& why) { channel_.MoveTo(address, why); }
  void Hurry() { channel_.Hurry(); }
  // The link is up, and leads to `another` server than before.
  void OnServer(const Prepared& prepared, bool another);
  void OnLinkDown() { context_.codec.TrustPublish(false); }
  // The channel and the codec use what the context says of the shard.
  void UseShard();
  // Other brokers may not listen here yet.
  void AwaitOthers() { trust_from_ = context_.timers->Now() + kOthersCome; }
  // Whether PUBLISH counts all who listen: not before the others have had the time to come to a new server, too.
  void Trust();

 private:
  // Brokers that listened to the old primary come to the new one within this time.
  static constexpr core::Duration kOthersCome = std::chrono::seconds(2);

  void OnChannelUp() override;
  void OnChannelDown(const absl::Status& why) override;
  void OnChannelMessage(std::string_view payload) override;
  void OnChannelMoved(const std::string& error) override { context_.owner->OnNodeMoved(error); }
  void OnNoShardChannels() override { DoWithoutShardChannels("the server does not know SSUBSCRIBE"); }

  void DoWithoutShardChannels(const std::string& why);
  bool bound() const { return context_.up && channel_.subscribed() && channel_.server() == context_.identity; }
  // Compares the servers of the two connections and makes one anew when they differ, later each time.
  void Bind();
  void Rebind();

  NodeContext& context_;
  NodeClock& clock_;
  NodeReport& report_;
  bool was_subscribed_ = false;
  bool is_younger_ = false;  // than the link's connection
  int bind_failures_ = 0;    // since the two connections last had the same server
  core::Instant trust_from_{};
  NoticeChannel channel_;
  const std::unique_ptr<Timer> bind_timer_;
  const std::unique_ptr<Timer> trust_timer_;
};

}  // namespace distlock::store
