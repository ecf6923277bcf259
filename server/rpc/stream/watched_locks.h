// SPDX-License-Identifier: Apache-2.0
//
// The state of one WatchLocks: the locks that it watches, and which of them it must tell its client of next. Locks are
// found by listings, which come in rounds; a lock that is found is watched, and from then on each change is seen. A
// lock that was free for two whole rounds is not watched any more: a listing finds it when it is taken again.
//
// No IO and no clock. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/lock_view.h"
#include "core/types.h"

namespace distlock::rpc {

// Between the end of one listing and the begin of the next: so long that listings take the store a twentieth of its
// time at most.
core::Duration PauseAfterListing(core::Duration took);

// Takes the time that has passed since `view` was seen off what its holders have left.
void SubtractAge(core::LockView* view, core::Duration age);

class WatchedLocks {
 public:
  // The id of one watch in the core; each lock has its own.
  using WatchId = core::SessionId;
  struct Change {
    core::LockView view;  // with at most kListed holders, a block among them, and waiters
    core::Instant seen{};
  };
  struct Dropped {
    core::LockName name;
    WatchId watch = 0;
  };
  static constexpr size_t kListed = 16;

  // Watches at most so many locks.
  explicit WatchedLocks(size_t most) : most_(most) {}

  bool Knows(const core::LockName& name) const { return by_name_.contains(name); }
  // A lock that was found and is not known is watched from now on. False: there is no room. May drop one that is free.
  bool Add(const core::LockName& name, WatchId watch);
  // The watch of a lock could not begin; the next round finds it again. Nothing has been seen of it.
  void Forget(WatchId watch);
  // A listing is over; `complete`: it has shown every lock.
  void EndRound(bool complete);

  // The lock was seen so. An unknown watch is ignored.
  void See(WatchId watch, core::LockView view, core::Instant now);
  // Its key is of a foreign kind now: it has no holders, and is not watched.
  void SeeForeign(WatchId watch, core::Instant now);

  // The locks that are not watched any more since the last call.
  std::vector<Dropped> TakeDropped() { return std::exchange(dropped_, {}); }
  // The next changes for the client, at most `most` of them. Of each lock only the newest is kept.
  std::vector<Change> TakeChanges(size_t most);
  // True once: when the client has been told of all locks of the first complete round.
  bool TakeListed();

  // All that are watched, in any order.
  std::vector<Dropped> All() const;
  size_t size() const { return locks_.size(); }

 private:
  struct Lock {
    core::LockName name;
    bool first = false;  // found before the first round was complete
    bool seen = false;
    bool told = false;  // a change was made ready for the client
    bool watched = true;
    std::optional<Change> waiting;
    std::optional<uint64_t> free_since;  // the round; set while the lock is free
  };

  void Show(WatchId watch, Lock& lock, core::LockView view, core::Instant now);
  void SetFree(WatchId watch, Lock& lock, bool is_free);
  bool DropOneThatIsFree();
  void Drop(WatchId watch);
  void CheckListed();

  const size_t most_;
  absl::flat_hash_map<WatchId, Lock> locks_;
  absl::flat_hash_map<core::LockName, WatchId> by_name_;
  absl::btree_set<std::pair<uint64_t, WatchId>> free_;  // by Lock.free_since
  std::deque<WatchId> order_;                           // of the changes that wait
  std::vector<Dropped> dropped_;
  uint64_t round_ = 0;                 // complete ones
  size_t unseen_ = 0;                  // locks of the first round that were not seen yet
  uint64_t put_ = 0;                   // changes that ever entered order_
  uint64_t taken_ = 0;                 // and left it
  std::optional<uint64_t> listed_at_;  // value of put_ when all of the first round had been seen
  bool listed_ = false;                // TakeListed was true
};

}  // namespace distlock::rpc
