// SPDX-License-Identifier: Apache-2.0
//
// Watches the keys of the locks in the primary store and records holders and waiters in the history. It sees the state
// between calls, since scripts are atomic. It identifies leases by their clients' labels ("lease 17").
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/messages.h"
#include "lua/scripts_data.h"
#include "simulation/store_process.h"

namespace distlock::sim {

class StoreObserver {
 public:
  explicit StoreObserver(Env& env);

  // Makes `store` the primary. Records as forgotten the part of the present state that it does not have.
  void Watch(StoreProcess& store);
  // The locks are in several stores: `of` says where all keys of a lock are, null while they are at two of them. Then
  // the lock is looked at later.
  void WatchAll(const std::vector<StoreProcess*>& stores, std::function<StoreProcess*(int32_t lock)> of);
  // Locks may be in other stores now.
  void SeeMoves() {
    OnChange("", ChangeKind::kFlushed);
    Look();
  }
  // Called after each call: records the changes. `forgotten`: the change was not made by a script.
  void Look(bool forgotten = false);
  // The store need not keep the present holders and waiters any more.
  void Forget(int32_t lock = -1);

  // The sight that a WatchLock should show, and its start.
  struct Sight {
    std::vector<uint64_t> tokens;  // of its holders, in order
    size_t waiting = 0;
    Instant since{};
    bool SameAs(const Sight& other) const { return tokens == other.tokens && waiting == other.waiting; }
  };
  const Sight& SightOf(int32_t lock) const { return locks_[static_cast<size_t>(lock)].sight; }
  // `told` is called when a lock's Sight changes.
  void OnSight(std::function<void(int32_t lock)> told) { on_sight_ = std::move(told); }
  // Picks a present holder for a forced release, and records that. Unset: no lock is held.
  std::optional<core::ForceRelease> Force();
  // The same of a quorum of servers, which need not be watched: of what most of them show.
  std::optional<core::ForceRelease> ForceAtMost(const std::vector<StoreProcess*>& stores);
  // The leases for which a server, which need not be watched, holds the lock.
  std::vector<int64_t> LeasesAt(StoreProcess& store, int32_t lock);

  // Keys that idle locks left behind; there should be none.
  static std::vector<std::string> Leftovers(const RedisModel& model);
  static std::string KeyOf(const std::string& lock, std::string_view part);

 private:
  struct Holder {
    int64_t lease = -1;
    uint64_t token = 0;
    int64_t ends_us = 0;    // by the store's clock, if the lock may have many holders; 0: it expires with its key
    std::string broker_id;  // of its broker
  };
  using Holders = std::map<std::string, Holder, std::less<>>;  // by owner id
  struct Place {
    int64_t lease = -1;
    int64_t arrival = 0;
    std::string broker_id;  // of its broker; "": not known
    friend bool operator==(const Place& a, const Place& b) { return a.lease == b.lease && a.arrival == b.arrival; }
  };
  using Places = std::map<std::string, Place, std::less<>>;  // by owner id
  struct Lock {
    std::string base;
    Holders holders;
    Places queue;
    Sight sight;
    bool holder_changed = false;
    bool queue_changed = false;
    bool expired = false;
  };

  void OnChange(std::string_view key, ChangeKind kind);
  void LookAt(int32_t index, bool forgotten);
  // When the first of many holders of each store expires.
  void AwaitEnds();
  using Held = std::pair<int32_t, Holders::value_type>;  // a lock, and a holder of it
  std::optional<core::ForceRelease> ForceOneOf(const std::vector<Held>& all);
  Holders HoldersOf(const std::string& key);
  static bool Has(const Holders& holders, const Holder& holder);
  void NoteFreed(int32_t index, const Holders& now, bool forgotten);
  void NoteDowngraded(int32_t index, const Holders& before);
  void NoteTaken(int32_t index, const Holders& now, const Holders& before);
  void CheckHears(int32_t index, const Place& place);
  Places PlacesOf(const Lock& lock);
  static bool HasPlace(const Places& places, const Place& place);
  void NoteUnqueued(int32_t index, const Places& now, const Holders& before);
  void NoteQueued(int32_t index, const Places& now);
  void SeeAgain(int32_t index);
  void Note(RecordKind kind, int32_t lock, int64_t lease, Record record = {});

  Env& env_;
  StoreProcess* store_ = nullptr;  // of the lock that is looked at
  std::vector<StoreProcess*> stores_;
  std::function<StoreProcess*(int32_t)> of_;
  std::function<void(int32_t)> on_sight_;
  std::vector<Lock> locks_;
  std::map<std::string, int64_t, std::less<>> lease_of_;  // by owner id: every holder and waiter so far
  bool changed_ = false;
  int64_t calls_ = 0;    // of the store, so far
  int64_t ends_us_ = 0;  // when the first of many holders expires; 0: none
  int64_t seen_us_ = 0;  // the store's clock at the last look
};

}  // namespace distlock::sim
