// SPDX-License-Identifier: Apache-2.0
#include "shard/lent_turns.h"

#include <cassert>

#include "shard/shard.h"

namespace distlock::shard {
namespace {

thread_local LentTurns* here = nullptr;

}  // namespace

LentTurns::LentTurns() {
  assert(here == nullptr);
  here = this;
}

LentTurns::~LentTurns() {
  Take();
  here = nullptr;
}

void LentTurns::Take() {
  // A turn may post, even to its own shard: the list may grow meanwhile.
  while (!shards_.empty()) {
    Shard* shard = shards_.back();
    shards_.pop_back();
    shard->LentTurn();
  }
}

LentTurns* LentTurns::OfThisThread() { return here; }

}  // namespace distlock::shard
