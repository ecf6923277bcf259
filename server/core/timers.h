// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of the core's records, earliest first. A record is a Timed and has one deadline at a time. Ties are ordered
// by creation, so that a run is reproducible.
//
// A calendar queue (R. Brown, 1988): the deadlines of one millisecond stand in one bucket, unsorted, and are sorted
// when it comes. Most deadlines are moved or cancelled before they come, and leases that are renewed together are
// neighbours here. Cost of Set: O(1), besides finding the bucket, which is O(log n) in the number of buckets.
//
// Thread: the shard's. Ownership: none; a record must be cancelled before it dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "core/types.h"

namespace distlock::core {

enum class TimerKind : uint8_t {
  kWaiter,
  kLease,
  kSession,
  kPendingRelease,
  kQueue,
  kRenewCall,
  kWatch,
  kDrain,
  kBundle,
  kDowngrade,
  kAdopt,
  kForceCall,
  kPace,
};

struct Timed {
  explicit Timed(TimerKind k) : kind(k) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  Instant at = kNever;  // owned by Timers
  uint64_t serial = 0;  // order of creation; set by the first Timers::Set or by the owner
  uint32_t slot = 0;    // owned by Timers
  const TimerKind kind;
};

class Timers {
 public:
  // Moves `timed` to `at`; kNever cancels.
  void Set(Timed& timed, Instant at);
  void Cancel(Timed& timed) { Set(timed, kNever); }

  // Takes the earliest record that is due; its deadline is then kNever. Null when none is due. `now` never goes back.
  Timed* PopDue(Instant now);

  // One of those that PopDue takes soon; null: unknown.
  const Timed* Next() const { return near_.empty() ? nullptr : near_.begin()->timed; }

  Instant Earliest() const;
  size_t size() const { return size_; }

 private:
  struct Entry {
    Instant at;
    uint64_t serial;
    Timed* timed;
    friend bool operator<(const Entry& a, const Entry& b) { return a.at != b.at ? a.at < b.at : a.serial < b.serial; }
  };
  // Deadlines of one bucket (2^20 ns, about a millisecond) stand together.
  using Bucket = int64_t;
  static Bucket BucketOf(Instant at) { return at.time_since_epoch().count() >> 20; }

  using Buckets = absl::btree_map<Bucket, std::vector<Entry>>;

  void Insert(Timed& timed);
  void Remove(const Timed& timed);
  void Drop(Buckets::iterator bucket);
  void Sort(Bucket last);

  Bucket current_bucket_ = INT64_MIN;      // the last bucket of near_
  absl::btree_set<Entry> near_;            // those of buckets up to current_bucket_
  Buckets later_;                          // Timed::slot is the place in the vector; none is empty
  std::vector<std::vector<Entry>> spare_;  // empty ones, to be used again
  size_t size_ = 0;

  // The earliest of later_, and how many are as early. 0: not known.
  mutable Instant earliest_ = kNever;
  mutable size_t as_early_ = 0;
};

}  // namespace distlock::core
