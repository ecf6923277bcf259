// SPDX-License-Identifier: Apache-2.0
#include "access/patterns.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "access/pattern_text.h"

namespace distlock::access {

void Patterns::AddAll(RuleIndex rule) {
  if (!all_) all_ = rule;
}

void Patterns::Add(std::string ns, std::string key, bool prefix, RuleIndex rule) {
  entries_.push_back({std::move(ns), std::move(key), prefix, rule});
}

bool Patterns::Holds(const Entry& entry, std::string_view ns, std::string_view key) {
  return entry.ns == ns && (entry.prefix ? key.starts_with(entry.key) : key == entry.key);
}

void Patterns::Seal() {
  // A prefix comes before the same text alone, since it holds the other one.
  const auto order = [](const Entry& a, const Entry& b) {
    return std::tie(a.ns, a.key, b.prefix, a.rule) < std::tie(b.ns, b.key, a.prefix, b.rule);
  };
  std::sort(entries_.begin(), entries_.end(), order);
  std::vector<Entry> kept;
  for (Entry& entry : entries_) {
    if (kept.empty() || !Holds(kept.back(), entry.ns, entry.key)) kept.push_back(std::move(entry));
  }
  entries_ = std::move(kept);
}

const Patterns::Entry* Patterns::Before(std::string_view ns, std::string_view key) const {
  size_t low = 0;
  size_t high = entries_.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const Entry& entry = entries_[middle];
    const int by_namespace = ns.compare(entry.ns);
    const bool is_before = by_namespace < 0 || (by_namespace == 0 && key < entry.key);
    (is_before ? high : low) = is_before ? middle : middle + 1;
  }
  return low == 0 ? nullptr : &entries_[low - 1];
}

std::optional<Patterns::RuleIndex> Patterns::Find(std::string_view ns, std::string_view key) const {
  if (all_) return all_;
  const Entry* const entry = Before(ns, key);
  if (entry == nullptr || !Holds(*entry, ns, key)) return std::nullopt;
  return entry->rule;
}

std::optional<Patterns::RuleIndex> Patterns::Covers(std::optional<std::string_view> ns, std::string_view prefix) const {
  if (all_ || !ns) return all_;
  const Entry* const entry = Before(*ns, prefix);
  if (entry == nullptr || !entry->prefix || !Holds(*entry, *ns, prefix)) return std::nullopt;
  return entry->rule;
}

std::optional<Patterns::RuleIndex> Patterns::Touches(std::optional<std::string_view> ns,
                                                     std::string_view prefix) const {
  if (all_) return all_;
  for (const Entry& entry : entries_) {
    if (ns && entry.ns != *ns) continue;
    const std::string_view key = entry.key;
    if (!ns || key.starts_with(prefix) || (entry.prefix && prefix.starts_with(key))) return entry.rule;
  }
  return std::nullopt;
}

std::vector<std::string> Patterns::Shown(size_t most) const {
  std::vector<std::string> shown;
  if (all_) shown.emplace_back("*");
  for (const Entry& entry : entries_) {
    if (shown.size() == most) break;
    shown.push_back(Show({.ns = {{.literal = entry.ns}}, .key = {{.literal = entry.key}}, .prefix = entry.prefix}));
  }
  return shown;
}

}  // namespace distlock::access
