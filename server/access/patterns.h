// SPDX-License-Identifier: Apache-2.0
//
// Sets of locks: single locks, prefixes, or all. A value; any thread.
//
// Invariant: once sealed, the entries are sorted, and none lies inside another one. So if a prefix of a key is in the
// set, it is the last entry that is not greater than the key, and one binary search decides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace distlock::access {

class Patterns {
 public:
  using RuleIndex = uint32_t;

  void AddAll(RuleIndex rule);
  void Add(std::string ns, std::string key, bool prefix, RuleIndex rule);
  // After the last Add, and before anything below.
  void Seal();

  // The rule whose pattern holds the lock; nullopt: none.
  std::optional<RuleIndex> Find(std::string_view ns, std::string_view key) const;
  // The rule whose pattern holds every lock of the namespace (nullopt: of all namespaces) that begins so.
  std::optional<RuleIndex> Covers(std::optional<std::string_view> ns, std::string_view prefix) const;
  // A rule one of whose patterns may hold such a lock.
  std::optional<RuleIndex> Touches(std::optional<std::string_view> ns, std::string_view prefix) const;

  bool empty() const { return !all_ && entries_.empty(); }
  std::optional<RuleIndex> all() const { return all_; }
  // "namespace:key", "namespace:prefix*" or "*", at most `most` of them.
  std::vector<std::string> Shown(size_t most) const;

 private:
  struct Entry {
    std::string ns;
    std::string key;
    bool prefix = false;
    RuleIndex rule = 0;
  };
  static bool Holds(const Entry& entry, std::string_view ns, std::string_view key);
  // The last entry that is not greater than (ns, key); null: none.
  const Entry* Before(std::string_view ns, std::string_view key) const;

  std::optional<RuleIndex> all_;
  std::vector<Entry> entries_;
};

}  // namespace distlock::access
