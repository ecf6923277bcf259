// SPDX-License-Identifier: Apache-2.0
#include "core/timers.h"

#include <algorithm>
#include <utility>

namespace distlock::core {
namespace {

constexpr size_t kMaxSpare = 16;
constexpr size_t kMaxSpareEntries = 256;

}  // namespace

void Timers::Set(Timed& timed, Instant at) {
  if (timed.at == at) return;
  if (timed.at != kNever) Remove(timed);
  timed.at = at;
  if (at != kNever) Insert(timed);
}

void Timers::Insert(Timed& timed) {
  ++size_;
  const Entry entry{timed.at, timed.serial, &timed};
  const Bucket bucket = BucketOf(timed.at);
  if (bucket <= current_bucket_) {
    near_.insert(entry);
    return;
  }
  const auto [found, fresh] = later_.try_emplace(bucket);
  std::vector<Entry>& entries = found->second;
  if (fresh && !spare_.empty()) {
    entries = std::move(spare_.back());
    spare_.pop_back();
  }
  timed.slot = static_cast<uint32_t>(entries.size());
  entries.push_back(entry);
  if (as_early_ > 0 && timed.at == earliest_) ++as_early_;
  if ((as_early_ > 0 && timed.at < earliest_) || size_ == near_.size() + 1) {
    earliest_ = timed.at;
    as_early_ = 1;
  }
}

void Timers::Remove(const Timed& timed) {
  --size_;
  const Bucket bucket = BucketOf(timed.at);
  if (bucket <= current_bucket_) {
    near_.erase(Entry{timed.at, timed.serial, nullptr});
    return;
  }
  const auto found = later_.find(bucket);
  std::vector<Entry>& entries = found->second;
  entries[timed.slot] = entries.back();
  entries[timed.slot].timed->slot = timed.slot;
  entries.pop_back();
  if (entries.empty()) Drop(found);
  if (as_early_ > 0 && timed.at == earliest_) --as_early_;
}

void Timers::Drop(Buckets::iterator bucket) {
  std::vector<Entry>& entries = bucket->second;
  if (spare_.size() < kMaxSpare && entries.capacity() <= kMaxSpareEntries) spare_.push_back(std::move(entries));
  later_.erase(bucket);
}

void Timers::Sort(Bucket last) {
  current_bucket_ = last;
  while (!later_.empty() && later_.begin()->first <= last) {
    std::vector<Entry>& entries = later_.begin()->second;
    near_.insert(entries.begin(), entries.end());
    entries.clear();
    Drop(later_.begin());
    as_early_ = 0;
  }
}

Timed* Timers::PopDue(Instant now) {
  if (BucketOf(now) > current_bucket_) Sort(BucketOf(now));
  if (near_.empty() || near_.begin()->at > now) return nullptr;
  Timed* due = near_.begin()->timed;
  near_.erase(near_.begin());
  --size_;
  due->at = kNever;
  return due;
}

Instant Timers::Earliest() const {
  if (!near_.empty()) return near_.begin()->at;
  if (later_.empty()) return kNever;
  if (as_early_ == 0) {
    earliest_ = kNever;
    for (const Entry& entry : later_.begin()->second) {
      if (entry.at < earliest_) as_early_ = 0;
      if (entry.at <= earliest_) ++as_early_;
      earliest_ = std::min(earliest_, entry.at);
    }
  }
  return earliest_;
}

}  // namespace distlock::core
