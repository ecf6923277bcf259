// SPDX-License-Identifier: Apache-2.0
#include "core/timers.h"

#include <utility>

#include "core/check.h"

namespace distlock::core {

void Timers::Set(Timed& timed, Instant at) {
  if (timed.at == at) return;
  if (timed.at != kNever) Remove(timed);
  timed.at = at;
  if (at == kNever) return;
  heap_.push_back({at, timed.serial, &timed});
  Rise(heap_.size() - 1);
}

Timed* Timers::PopDue(Instant now) {
  if (heap_.empty() || heap_.front().at > now) return nullptr;
  Timed* const due = heap_.front().timed;
  Remove(*due);
  due->at = kNever;
  return due;
}

void Timers::Check() const {
  for (size_t place = 0; place < heap_.size(); ++place) {
    const Entry& entry = heap_[place];
    DISTLOCK_CHECK(entry.timed->place == place && entry.timed->at == entry.at && entry.timed->serial == entry.serial);
    DISTLOCK_CHECK(entry.at != kNever && !(entry < heap_[place == 0 ? 0 : (place - 1) / 2]));
  }
}

void Timers::Remove(const Timed& timed) {
  const size_t place = timed.place;
  DISTLOCK_CHECK(place < heap_.size() && heap_[place].timed == &timed);
  const Entry last = heap_.back();
  heap_.pop_back();
  if (place == heap_.size()) return;
  Put(last, place);
  Sink(place);
  Rise(place);
}

void Timers::Put(const Entry& entry, size_t place) {
  heap_[place] = entry;
  entry.timed->place = place;
}

void Timers::Rise(size_t place) {
  const Entry entry = heap_[place];
  for (; place > 0 && entry < heap_[(place - 1) / 2]; place = (place - 1) / 2) Put(heap_[(place - 1) / 2], place);
  Put(entry, place);
}

void Timers::Sink(size_t place) {
  const Entry entry = heap_[place];
  while (true) {
    size_t child = 2 * place + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
    if (!(heap_[child] < entry)) break;
    Put(heap_[child], place);
    place = child;
  }
  Put(entry, place);
}

}  // namespace distlock::core
