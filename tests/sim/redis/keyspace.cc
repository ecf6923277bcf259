// SPDX-License-Identifier: Apache-2.0
#include "redis/keyspace.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace distlock::sim {
namespace {

// For one key or member: about the size of a real server's table entries and headers.
constexpr uint64_t kOverhead = 64;

uint64_t SizeOf(const std::string& text) { return text.size() + kOverhead; }
uint64_t SizeOf(const std::pair<double, std::string>& member) { return SizeOf(member.second); }
uint64_t SizeOf(const std::pair<const std::string, std::string>& field) {
  return SizeOf(field.first) + field.second.size();
}

struct SizeOfValue {
  uint64_t operator()(const std::string& text) const { return SizeOf(text); }
  template <typename Many>
  uint64_t operator()(const Many& many) const {
    uint64_t bytes = kOverhead;
    for (const auto& one : many) bytes += SizeOf(one);
    return bytes;
  }
};

}  // namespace

Entry* Keyspace::Find(std::string_view key) {
  const auto at = entries_.find(key);
  if (at == entries_.end()) return nullptr;
  if (!IsExpired(at->second)) return &at->second;
  if (!replica) Expire(at);
  return nullptr;
}

const Entry* Keyspace::Look(std::string_view key) const {
  const auto at = entries_.find(key);
  return at == entries_.end() || IsExpired(at->second) ? nullptr : &at->second;
}

Entry& Keyspace::FindOrMake(std::string_view key, Value empty) {
  if (Entry* found = Find(key)) return *found;
  return entries_.insert_or_assign(std::string(key), Entry{std::move(empty)}).first->second;
}

void Keyspace::Put(std::string_view key, Value value, int64_t expires_ms) {
  Entry& entry = FindOrMake(key, std::string());
  entry.value = std::move(value);
  ForgetExpiry(entry.expires_ms);
  entry.expires_ms = expires_ms;
  earliest_ms_ = std::min(earliest_ms_, expires_ms);
  Report(key, ChangeKind::kWritten);
}

void Keyspace::SetExpiry(std::string_view key, Entry& entry, int64_t expires_ms) {
  ForgetExpiry(entry.expires_ms);
  entry.expires_ms = expires_ms;
  earliest_ms_ = std::min(earliest_ms_, expires_ms);
  Report(key, ChangeKind::kWritten);
}

bool Keyspace::Delete(std::string_view key, ChangeKind why) {
  if (Find(key) == nullptr) return false;
  Erase(entries_.find(key), why);
  return true;
}

void Keyspace::Clear() {
  entries_.clear();
  earliest_ms_ = kNeverMs;
  earliest_known_ = true;
  Report("", ChangeKind::kFlushed);
}

void Keyspace::ExpireDue() {
  if (replica || EarliestExpiryMs() >= now_ms()) return;
  std::vector<std::pair<int64_t, std::string>> due;
  for (const auto& [key, entry] : entries_) {
    if (IsExpired(entry)) due.emplace_back(entry.expires_ms, key);
  }
  std::sort(due.begin(), due.end());
  for (const auto& [when, key] : due) Expire(entries_.find(key));
  Commit();
}

int64_t Keyspace::EarliestExpiryMs() const {
  if (!earliest_known_) {
    earliest_ms_ = kNeverMs;
    for (const auto& [key, entry] : entries_) earliest_ms_ = std::min(earliest_ms_, entry.expires_ms);
    earliest_known_ = true;
  }
  return earliest_ms_;
}

uint64_t Keyspace::Bytes() const {
  uint64_t bytes = 0;
  for (const auto& [key, entry] : entries_) bytes += SizeOf(key) + std::visit(SizeOfValue(), entry.value);
  return bytes;
}

void Keyspace::Record(Words command) {
  if (!on_effects || applying_ || replica) return;
  effects_.commands.emplace_back(command.begin(), command.end());
}

void Keyspace::Commit() {
  if (effects_.commands.empty()) return;
  const Effects done = std::exchange(effects_, Effects());
  on_effects(done);
}

void Keyspace::CopyFrom(const Keyspace& other) {
  Clear();
  entries_ = other.entries_;
  earliest_known_ = false;
  if (!on_change) return;
  for (const auto& [key, entry] : entries_) on_change(key, ChangeKind::kWritten);
}

void Keyspace::Erase(Entries::iterator at, ChangeKind why) {
  ForgetExpiry(at->second.expires_ms);
  const std::string key = at->first;
  entries_.erase(at);
  Report(key, why);
}

void Keyspace::Expire(Entries::iterator at) {
  Record(std::array<std::string_view, 2>{"UNLINK", at->first});
  Erase(at, ChangeKind::kExpired);
}

// Must be called for each removed expiry, since it may have been the earliest one.
void Keyspace::ForgetExpiry(int64_t expires_ms) {
  if (expires_ms == earliest_ms_ && expires_ms != kNeverMs) earliest_known_ = false;
}

}  // namespace distlock::sim
