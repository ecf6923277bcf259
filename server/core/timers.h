// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of the core's records, earliest first. A record is a Timed and has one deadline at a time; setting,
// moving and cancelling cost O(log n). Ties are ordered by creation, so that a run is reproducible.
//
// Thread: the shard's. Ownership: none; a record must be cancelled before it dies.
#pragma once

#include <cstdint>

#include "absl/container/btree_set.h"
#include "core/types.h"

namespace distlock::core {

enum class TimerKind : uint8_t {
  kWaiter, kLease, kSession, kGiveBack, kQueue, kRenewCall, kWatch, kDrain, kBundle, kConvertCall, kForceCall
};

struct Timed {
  explicit Timed(TimerKind k) : kind(k) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  Instant at = kNever;  // owned by Timers
  uint64_t serial = 0;  // order of creation; set by the first Timers::Set or by the owner
  const TimerKind kind;
};

class Timers {
 public:
  // Moves `timed` to `at`; kNever cancels.
  void Set(Timed& timed, Instant at) {
    if (timed.at == at) return;
    if (timed.at != kNever) entries_.erase(Entry{timed.at, timed.serial, nullptr});
    timed.at = at;
    if (at != kNever) entries_.insert(Entry{at, timed.serial, &timed});
  }
  void Cancel(Timed& timed) { Set(timed, kNever); }

  // Takes the earliest record that is due; its deadline is then kNever. Null when none is due.
  Timed* PopDue(Instant now) {
    if (entries_.empty() || entries_.begin()->at > now) return nullptr;
    Timed* due = entries_.begin()->timed;
    entries_.erase(entries_.begin());
    due->at = kNever;
    return due;
  }

  // The one that PopDue takes next; null: none.
  const Timed* Next() const { return entries_.empty() ? nullptr : entries_.begin()->timed; }

  Instant Earliest() const { return entries_.empty() ? kNever : entries_.begin()->at; }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Instant at;
    uint64_t serial;
    Timed* timed;
    friend bool operator<(const Entry& a, const Entry& b) {
      return a.at != b.at ? a.at < b.at : a.serial < b.serial;
    }
  };
  absl::btree_set<Entry> entries_;
};

}  // namespace distlock::core
