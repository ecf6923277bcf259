// SPDX-License-Identifier: Apache-2.0
//
// What leaves as one call: acquires and releases of different locks that come within a turn of the loop cost the server half as much
// together (lua/batch.lua) as one by one. A single one, and every other command, is a call of its own script. Commands of one lock
// leave in the order they came in. For a single server: of a Cluster, only locks of one slot could go together.
//
// Thread: the loop's. Codec and caller outlive it.
#pragma once

#include <functional>
#include <vector>

#include "core/messages.h"
#include "store/redis/answer.h"
#include "store/redis/codec.h"
#include "store/redis/script_caller.h"

namespace distlock::store {

class ScriptBatch {
 public:
  // Exactly once for each command, never from within Add or Send.
  using OnAnswer = std::function<void(const Question&, const Answer&)>;

  ScriptBatch(const Codec* codec, ScriptCaller* scripts, OnAnswer on_answer);

  // Any command but StoreReconnect.
  void Add(core::StoreCommand&& command);
  // What was added is with the caller at the latest now.
  void Send();

 private:
  bool Joins(const core::StoreCommand& command) const;
  void SendAlone(const core::StoreCommand& command);
  void Answered(const std::vector<Question>& questions, const Answer& answer) const;

  // Const after construction.
  const Codec* const codec_;
  ScriptCaller* const scripts_;
  const OnAnswer on_answer_;

  std::vector<core::StoreCommand> gathered_;
};

}  // namespace distlock::store
