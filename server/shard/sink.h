// SPDX-License-Identifier: Apache-2.0
//
// Where a shard delivers the answers for one stream or unary call. The rpc room implements it; the shard knows it only
// while its SessionId is attached.
//
// Thread: OnEvents runs on the shard's thread (several shards may call the same sink at the same time), without any
// lock of the shard held; it must not block. Ownership: shared by the reactor and each shard it is attached to, so a
// sink outlives its reactor: after the reactor is gone OnEvents must do nothing.
#pragma once

#include <vector>

#include "core/messages.h"

namespace distlock::shard {

class Sink {
 public:
  virtual ~Sink() = default;
  // All events of one loop turn for this listener, in order. `shard` = index of the shard that speaks.
  virtual void OnEvents(int shard, std::vector<core::Notify> events) = 0;
};

}  // namespace distlock::shard
