// SPDX-License-Identifier: Apache-2.0
//
// Turns of shards on the thread that gives them work. To wake a shard's own thread for one message costs more than the
// turn: while a LentTurns lives, the shards that its thread posts to are not woken but noted, and Take has their turns,
// here.
//
// Thread: the one that made it; one per thread at a time. Take must follow what was posted, soon.
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

  // Something waits for Take.
  bool wanted() const { return !shards_.empty(); }
  void Take();

  // For a shard that has just been posted to: false when this thread lends no turns.
  static bool Note(Shard& shard);

 private:
  std::vector<Shard*> shards_;
};

}  // namespace distlock::shard
