// SPDX-License-Identifier: Apache-2.0
//
// The connection on which the store tells this broker of locks handed to its waiters. Subscribes again after every
// loss; a PING now and then finds a dead peer that TCP takes for alive.
//
// Thread: the loop's. The owner outlives it. Notices are hints: any may be lost, and each new subscription says so.
#pragma once

#include <string>
#include <string_view>

#include "store/redis/link.h"
#include "store/redis/loop_timer.h"

namespace distlock::store {

class NoticeChannel : private Link::Owner {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnChannelUp() = 0;
    virtual void OnChannelDown(const absl::Status& why) = 0;
    virtual void OnChannelMessage(std::string_view payload) = 0;
  };

  NoticeChannel(uv_loop_t* loop, LinkOptions options, std::string channel, Owner* owner);

  void Start() { link_.Start(); }
  void Stop();

 private:
  void OnLinkConnected() override;
  void OnLinkDown(const absl::Status& why) override;
  void OnLinkPush(const redisReply& push) override;
  void OnSubscribed(const Answer& answer);
  void Ping();

  const std::string channel_;
  Owner* const owner_;
  bool ping_answered_ = true;
  Link link_;
  LoopTimer ping_timer_;
};

}  // namespace distlock::store
