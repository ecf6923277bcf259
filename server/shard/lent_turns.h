// SPDX-License-Identifier: Apache-2.0
//
// Runs shards' turns on the thread that posts to them. Waking a shard's own thread for one message costs more than the
// turn itself. While a thread owns a LentTurns, its posts do not wake the shards: the LentTurns keeps a list of them,
// and Take runs their turns.
//
// Thread: the one that made it; one LentTurns per thread at a time. The owner must call Take soon after each post,
// because its posts wait until then.
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

  // True while a shard waits for Take.
  bool wanted() const { return !shards_.empty(); }
  void Take();

  // Called by a shard that this thread has just posted to: Take will run its turn.
  void Promise(Shard& shard) { shards_.push_back(&shard); }

  // This thread's LentTurns; null when it owns none.
  static LentTurns* OfThisThread();

 private:
  std::vector<Shard*> shards_;
};

}  // namespace distlock::shard
