// SPDX-License-Identifier: Apache-2.0
//
// The store as the scripts of lua/ make it, in plain C++: holders, tokens, queues, waiters and broker slots, all with a
// TTL, one call at a time, by the store's own clock. It answers in the core's words, as server/store would decode them.
// Left out: foreign keys, full queues and maxmemory.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/messages.h"

namespace distlock::core {

class ModelStore {
 public:
  using BrokerNumber = uint64_t;
  using Outcome = decltype(StoreReply::outcome);
  struct Hooks {
    std::function<bool(BrokerNumber, const GrantNotice&)> publish;  // whether anybody heard it
    std::function<void(const LockName&, const OwnerId&, uint64_t token)> granted;
    std::function<void(const LockName&, const OwnerId&)> freed;    // holds it no more: given back, expired or deleted
    std::function<void(const LockName&, const OwnerId&)> expired;  // the same, before freed, when it is by its ttl
    std::function<void(const LockName&, const OwnerId&)> queued;
    std::function<void(const OwnerId&)> withdrawn;  // has no place any more, and was not granted
  };
  enum class Part : uint8_t { kHolder, kToken, kQueue, kWaiters, kSlots };

  ModelStore(Hooks hooks, bool trusted, Duration queue_slot);

  // The store's clock moves on; what has expired by then is gone.
  void Advance(StoreTime now);
  // When the next holder expires by the store's clock, if nothing happens before.
  std::optional<StoreTime> NextExpiry() const;

  Outcome Run(BrokerNumber broker, const StoreCommand& command);
  void FlushAll();
  void Delete(const LockName& name, Part part);

  std::vector<std::pair<LockName, OwnerId>> Holders() const;
  const OwnerId* HolderOf(const LockName& name) const;
  // Keys of all locks, last tokens left out.
  size_t Keys() const;

 private:
  struct Terms {
    int64_t ttl_ms = 0;
    int64_t delay_ms = 0;
  };
  struct Holder {
    OwnerId owner{};
    uint64_t token = 0;
    int64_t since_us = 0;
    Terms terms;
  };
  struct Entry {
    BrokerNumber broker = 0;
    Terms terms;
  };
  // Ends are in the store's milliseconds: a key is gone once the clock shows more.
  struct Lock {
    std::optional<Holder> holder;
    int64_t holder_end = 0;
    uint64_t token = 0;  // 0: no key
    int64_t token_end = 0;
    std::vector<std::pair<int64_t, OwnerId>> queue;  // by score
    int64_t queue_end = 0;
    std::map<OwnerId, Entry> waiters;
    int64_t waiters_end = 0;
    std::map<BrokerNumber, int64_t> slots;
  };
  struct Winner {
    OwnerId owner{};
    BrokerNumber broker = 0;
  };
  struct Caller {
    OwnerId owner{};
    Terms terms;
  };

  Outcome Do(BrokerNumber broker, const StoreAcquire& in);
  Outcome Do(BrokerNumber broker, const StoreRenew& in);
  Outcome Do(BrokerNumber broker, const StoreRelease& in);
  Outcome Do(BrokerNumber broker, const StoreWithdraw& in);
  Outcome Do(BrokerNumber broker, const StoreTend& in);
  Outcome Do(BrokerNumber, const StoreReconnect&) { return StoreUnknown{}; }

  void Purge(const LockName& name, Lock& lock);
  void Vacate(const LockName& name, Lock& lock);
  void Take(Lock& lock, const OwnerId& owner, uint64_t token, Terms terms);
  std::optional<Winner> HandOff(const LockName& name, Lock& lock, BrokerNumber broker, bool quiet, uint64_t floor,
                                const std::optional<Caller>& caller);
  void TellOfBlock(const LockName& name, const Lock& lock, BrokerNumber broker, Duration block);
  GiveBackDone Free(const LockName& name, Lock& lock, BrokerNumber broker);
  HolderView View(const Lock& lock) const;
  static bool Is(const Holder& holder, const OwnerId& owner, uint64_t token) {
    return holder.owner == owner && (token == 0 || holder.token == token);
  }
  int64_t NowMs() const { return now_us_ / 1000; }

  Hooks hooks_;
  const bool trusted_;
  const int64_t slot_ms_;
  int64_t now_us_ = 0;
  std::map<LockName, Lock> locks_;
};

}  // namespace distlock::core
