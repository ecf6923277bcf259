// SPDX-License-Identifier: Apache-2.0
//
// The connection on which one server tells this broker of locks that were handed to its waiters. It says which server
// it reaches, subscribes again after every loss, and sends a PING now and then, so that the link notices a dead peer.
// In a Cluster it is the channel of one shard, one to a connection, so that no other node takes part.
//
// Thread: the loop's. The owner outlives it. Notices are hints: any may be lost, and each new subscription says so.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/redis/link.h"
#include "store/redis/server_identity.h"
#include "store/redis/transport.h"

namespace distlock::store {

class NoticeChannel : private Link::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Subscribed, at the server that `server()` names.
    virtual void OnChannelUp() = 0;
    virtual void OnChannelDown(const absl::Status& why) = 0;
    virtual void OnChannelMessage(std::string_view payload) = 0;
    // The shard of the channel is not at this server any more. `error`: its MOVED; "": it did not say where it is.
    virtual void OnChannelMoved(const std::string& /*error*/) {}
    // The server knows no channels of shards.
    virtual void OnNoShardChannels() {}
  };

  NoticeChannel(const Network& network, LinkOptions options, std::string channel, Owner* owner);

  void Start() { link_.Start(); }
  void Stop();
  // From now on it is this channel, of a shard (`sharded`) or one that PUBLISH reaches.
  void Listen(std::string channel, bool sharded);
  // As of Link.
  void MoveTo(const ServerAddress& address, const std::string& why);
  void Hurry() { link_.Hurry(); }
  // Ends the subscription and makes a new one on a new connection. Does nothing while there is none.
  void Renew(const std::string& why);

  bool subscribed() const { return subscribed_; }
  // While subscribed: as the server described itself before.
  const ServerIdentity& server() const { return server_; }

 private:
  void OnLinkConnected() override;
  void OnLinkDown(const absl::Status& why) override;
  void OnLinkPush(const redisReply& push) override;
  void OnInfo(const Answer& answer);
  void OnSubscribed(const Answer& answer);
  void Refused(std::string_view step, const redisReply& error);
  void Ping();

  std::string channel_;
  bool sharded_ = false;
  Owner* const owner_;
  bool subscribed_ = false;
  ServerIdentity server_;
  Link link_;
  const std::unique_ptr<Timer> ping_timer_;
};

}  // namespace distlock::store
