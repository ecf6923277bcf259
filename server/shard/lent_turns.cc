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
  // A turn may post, to its own shard too.
  while (!shards_.empty()) {
    Shard* shard = shards_.back();
    shards_.pop_back();
    shard->LentTurn();
  }
}

bool LentTurns::Note(Shard& shard) {
  if (here == nullptr) return false;
  here->shards_.push_back(&shard);
  return true;
}

}  // namespace distlock::shard
