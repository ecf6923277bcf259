// SPDX-License-Identifier: Apache-2.0
//
// Deadlines of the core's records, earliest first. A record is a Timed and has one deadline at a time. Ties are ordered
// by serial, so that a run is reproducible. A binary heap: Set costs O(log n).
//
// Thread: the shard's. Ownership: none; a record must be cancelled before it dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/types.h"

namespace distlock::core {

struct Timed {
  Timed() = default;
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  Instant at = kNever;  // owned by Timers
  uint64_t serial = 0;  // order of creation; set by the first Timers::Set or by the owner
  size_t place = 0;     // owned by Timers
};

class Timers {
 public:
  // Moves `timed` to `at`; kNever cancels.
  void Set(Timed& timed, Instant at);
  void Cancel(Timed& timed) { Set(timed, kNever); }

  // Takes the earliest record that is due; its deadline is then kNever. Null when none is due. `now` never goes back.
  Timed* PopDue(Instant now);

  Instant Earliest() const { return heap_.empty() ? kNever : heap_.front().at; }
  size_t size() const { return heap_.size(); }
  // Crashes if the heap is out of order.
  void Check() const;

 private:
  struct Entry {
    Instant at;
    uint64_t serial;
    Timed* timed;
    friend bool operator<(const Entry& a, const Entry& b) { return a.at != b.at ? a.at < b.at : a.serial < b.serial; }
  };

  void Remove(const Timed& timed);
  void Put(const Entry& entry, size_t place);
  void Rise(size_t place);
  void Sink(size_t place);

  std::vector<Entry> heap_;  // Timed::place is the place in it
};

}  // namespace distlock::core
