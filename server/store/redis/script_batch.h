// SPDX-License-Identifier: Apache-2.0
//
// Sends several acquires and releases as one call of lua/batch.lua, which costs the server half as much as one call
// each. A batch holds commands that were submitted within one turn of the loop: of each lock one, or what its readers
// sent. A command that is alone, and every other verb, is a call of its own script. Commands of one lock leave in the
// order in which they came; those of different locks may change places. So two batches are open at a time: callers who
// release a lock and ask for it again EXCLUSIVE fill the first with releases and the second with acquires.
// All locks of a batch must be of one server, and in a Cluster of one slot.
//
// Thread: the loop's. Codec and caller outlive it.
#pragma once

#include <functional>
#include <vector>

#include "core/messages.h"
#include "store/redis/codec.h"
#include "store/redis/command_sender.h"
#include "store/redis/script_caller.h"

namespace distlock::store {

class ScriptBatch {
 public:
  // Called exactly once for each command, never from within Add or Send.
  using OnAnswer = std::function<void(const SentCommand&, const Answer&)>;

  ScriptBatch(const Codec* codec, ScriptCaller* scripts, OnAnswer on_answer);

  void Add(core::StoreCommand&& command);
  // Passes one command to the script caller, as a call of its own.
  void SendAlone(const core::StoreCommand& command);
  // Passes to the script caller what was added and has not been passed yet.
  void Send();

 private:
  using Batch = std::vector<core::StoreCommand>;

  // Where the next command of the lock would stand; the beginning: there is none of it.
  static Batch::iterator BehindItsLock(Batch& batch, const core::LockName& lock);
  // Takes the command when it may share the batch with those of its lock, which end at `behind`.
  bool Join(Batch& batch, Batch::iterator behind, core::StoreCommand& command) const;
  // For a command of a lock that is not in it.
  bool HasRoom(const Batch& batch, const core::LockName& lock) const;
  void SendBatch(Batch& batch);
  void Answered(const std::vector<SentCommand>& sent, const Answer& answer) const;

  // Const after construction.
  const Codec* const codec_;
  ScriptCaller* const scripts_;
  const OnAnswer on_answer_;

  Batch first_;   // commands of one lock stand together
  Batch second_;  // the same; leaves behind the first
};

}  // namespace distlock::store
