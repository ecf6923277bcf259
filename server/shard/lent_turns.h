// SPDX-License-Identifier: Apache-2.0
//
// Runs shards' turns on the thread that posts to them. Waking a shard's own thread for one message costs more than the
// turn itself. While a thread owns a LentTurns, the shards that it posts to are not woken: they are remembered here,
// and Take runs their turns.
//
// Thread: the one that made it; one per thread at a time. The owner must call Take soon after each post: until then
// what it has posted waits.
#pragma once

#include <vector>

namespace distlock::shard {

class Shard;

class LentTurns {
 public:
  LentTurns();
  ~LentTurns();  // Take
  LentTurns(const LentTurns&) = delete;
  LentTurns& operator=(const LentTurns&) = delete;

  // Some shard waits for Take.
  bool wanted() const { return !shards_.empty(); }
  void Take();

  // Called by a shard that this thread has just posted to: Take will run its turn.
  void Promise(Shard& shard) { shards_.push_back(&shard); }

  // The one that this thread owns; null when this thread lends no turns.
  static LentTurns* OfThisThread();

 private:
  std::vector<Shard*> shards_;
};

}  // namespace distlock::shard
