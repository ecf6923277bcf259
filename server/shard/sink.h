// SPDX-License-Identifier: Apache-2.0
//
// Where a shard delivers the answers for one stream or unary call. The rpc room implements it. A shard knows a sink
// while its session is attached.
//
// Thread: the one that runs the shard's turn; several shards may call one sink at the same time. OnEvents is part of
// the turn: it keeps the events and must not block. Send follows on the same thread, after the turn. Ownership: shared
// by the call and each shard that the sink is attached to. A sink may outlive its call; both methods then do nothing.
#pragma once

#include <vector>

#include "core/messages.h"

namespace distlock::shard {

class Sink {
 public:
  virtual ~Sink() = default;
  // All events of one turn for this sink, in order. `shard`: the index of the shard that calls.
  virtual void OnEvents(int shard, std::vector<core::Notify> events) = 0;
  // Sends the events that OnEvents kept. Several threads may call it at the same time, and one may send the events of
  // another's turn.
  virtual void Send() = 0;
  // True when the session may have so many leases that ending it takes long.
  virtual bool MayHoldMany() const { return false; }
};

}  // namespace distlock::shard
