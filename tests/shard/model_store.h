// SPDX-License-Identifier: Apache-2.0
//
// The production's store of one server, on a modelled server of its own for each shard, and what a test may do to all
// of them: hold answers back, lose replies, take the servers away; and count. What is held back and lost is so between
// the store and its shard. No lock is decided here.
//
// Thread: ModelStores on any, shared by a test and the stores of all its shards, which it outlives.
#pragma once

#include <uv.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/store_traits.h"
#include "store/single/single_store.h"
#include "store/store.h"

namespace distlock::shard {

class ModelStore;

class ModelStores {
 public:
  struct Counts {
    size_t commands = 0;  // that have run
    size_t acquires = 0;
    size_t releases_of_any = 0;  // that name no grant; submitted
    size_t flushes = 0;          // that had something to send
    size_t largest_flush = 0;    // commands
    size_t questions = 0;        // asked by Inspect
    size_t stopped = 0;          // stores
  };

  static constexpr core::StoreTraits kTraits = store::SingleStore::kTraits;

  // `broker_id_of`: by the shard's index; each its own.
  std::function<std::unique_ptr<store::Store>(int, uv_loop_t*)> Factory(
      std::function<std::string(int)> broker_id_of = BrokerIdOf);

  void HoldReplies(bool hold);
  void LoseReplies(int count);  // of the next commands that run
  void SetUp(bool up);          // returns when every shard that runs has been told, or after a minute

  Counts counts() const;
  // Waits until `reached` holds of the counts; false after a minute.
  bool Await(const std::function<bool(const Counts&)>& reached);

 private:
  friend class ModelStore;
  static std::string BrokerIdOf(int shard);
  void Change(const std::function<void()>& change);

  mutable std::mutex mu_;
  std::condition_variable changed_;
  bool hold_ = false;
  bool up_ = true;
  int lose_ = 0;
  Counts counts_;
  std::map<ModelStore*, bool> stores_;  // and whether its shard has been told that it is up
};

}  // namespace distlock::shard
