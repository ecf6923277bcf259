// SPDX-License-Identifier: Apache-2.0
//
// The data of a RedisModel: values by key, with expiry on the model's clock. Reports changes to one observer, and
// records effects for replicas. The commands decide which values a key may have.
//
// Thread: the model's. Pointers to entries end with the next call that is not const.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "redis/redis_model.h"

namespace distlock::sim {

using Words = std::span<const std::string_view>;
using ListValue = std::vector<std::string>;
using SetValue = absl::btree_set<std::string, std::less<>>;
using ZsetValue = std::vector<std::pair<double, std::string>>;  // sorted: by score, then member
using HashValue = absl::btree_map<std::string, std::string, std::less<>>;
// In the order of KeyType, without kNone.
using Value = std::variant<std::string, ListValue, SetValue, ZsetValue, HashValue>;

constexpr int64_t kNeverMs = std::numeric_limits<int64_t>::max();

struct Entry {
  Value value;
  int64_t expires_ms = kNeverMs;

  KeyType type() const { return static_cast<KeyType>(value.index() + 1); }
};

class Keyspace {
 public:
  using Entries = absl::btree_map<std::string, Entry, std::less<>>;

  int64_t now_us = 0;
  bool replica = false;
  std::function<void(std::string_view, ChangeKind)> on_change;
  std::function<void(const Effects&)> on_effects;

  // Rounded down, also before 1970.
  int64_t now_ms() const { return now_us / 1000 - (now_us % 1000 < 0 ? 1 : 0); }

  // The value as a command sees it: nullptr when absent or expired. A primary deletes an expired key here.
  Entry* Find(std::string_view key);
  // The same, without the deletion.
  const Entry* Look(std::string_view key) const;
  // As Find; when the key is absent, makes an entry with this value that never expires.
  Entry& FindOrMake(std::string_view key, Value empty);
  // Replaces the key with its value and TTL.
  void Put(std::string_view key, Value value, int64_t expires_ms);

  // Tells the observer that the value of a present key was changed in place.
  void NoteWritten(std::string_view key) { Report(key, ChangeKind::kWritten); }
  void SetExpiry(std::string_view key, Entry& entry, int64_t expires_ms);
  // Returns whether there was a key that is not expired. The caller records the effect.
  bool Delete(std::string_view key, ChangeKind why = ChangeKind::kDeleted);
  void Clear();

  void ExpireDue();
  int64_t EarliestExpiryMs() const;
  uint64_t Bytes() const;
  const Entries& entries() const { return entries_; }
  bool IsExpired(const Entry& entry) const { return !applying_ && now_ms() > entry.expires_ms; }

  // Adds a command to the effects of this call, if effects are recorded.
  void Record(Words command);
  // Ends the call: passes its effects on.
  void Commit();

  // While a primary's effects are applied, no key counts as expired and nothing is recorded.
  void BeginApply() { applying_ = true; }
  void EndApply() { applying_ = false; }
  bool applying() const { return applying_; }

  void CopyFrom(const Keyspace& other);

 private:
  void Erase(Entries::iterator at, ChangeKind why);
  void Expire(Entries::iterator at);
  void ForgetExpiry(int64_t expires_ms);
  void Report(std::string_view key, ChangeKind kind) {
    if (on_change) on_change(key, kind);
  }

  Entries entries_;
  Effects effects_;
  bool applying_ = false;
  mutable int64_t earliest_ms_ = kNeverMs;
  mutable bool earliest_known_ = true;
};

}  // namespace distlock::sim
