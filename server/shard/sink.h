// SPDX-License-Identifier: Apache-2.0
//
// Where a shard delivers the answers for one stream or unary call. The rpc room implements it; the shard knows it only
// while its SessionId is attached.
//
// Thread: whichever has the shard's turn (several shards may call the same sink at the same time). OnEvents is part of
// the turn: it keeps what it is told, and must not block. Send follows, on the same thread, without the turn. Ownership:
// shared by the reactor and each shard it is attached to, so a sink outlives its reactor: after the reactor is gone both
// must do nothing.
#pragma once

#include <vector>

#include "core/messages.h"

namespace distlock::shard {

class Sink {
 public:
  virtual ~Sink() = default;
  // All events of one loop turn for this listener, in order. `shard` = index of the shard that speaks.
  virtual void OnEvents(int shard, std::vector<core::Notify> events) = 0;
  // Passes on what OnEvents kept. Several threads may be in it, one of which may find the events of another's turn.
  virtual void Send() = 0;
  // Whether its session may have so many leases that ending it takes long.
  virtual bool MayHoldMany() const { return false; }
};

}  // namespace distlock::shard
