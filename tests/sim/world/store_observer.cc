// SPDX-License-Identifier: Apache-2.0
#include "world/store_observer.h"

#include <charconv>

namespace distlock::sim {
namespace {

template <typename T>
T Number(std::string_view text) {
  T number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The n-th part of "a;b;c".
std::string_view Part(std::string_view text, int n) {
  for (; n > 0; --n) {
    const size_t at = text.find(';');
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + 1);
  }
  return text.substr(0, text.find(';'));
}

// "..lease 17": what a client says of itself; -1 when it does not.
int64_t LeaseOf(std::string_view value) {
  const size_t at = value.rfind("lease ");
  return at == std::string_view::npos ? -1 : Number<int64_t>(value.substr(at + 6));
}

bool IsNobody(std::string_view owner) { return owner.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::string StoreObserver::KeyOf(const std::string& lock, std::string_view part) {
  return "dl:{default/" + lock + "}:" + std::string(part);
}

StoreObserver::StoreObserver(Env& env) : env_(env) {
  for (const std::string& lock : env.history.locks) locks_.push_back({.base = KeyOf(lock, "")});
}

void StoreObserver::Watch(StoreProcess& store) {
  if (store_ != nullptr) store_->model().OnChange(nullptr);
  store_ = &store;
  store.model().OnChange([this](std::string_view key, ChangeKind kind) { OnChange(key, kind); });
  OnChange("", ChangeKind::kFlushed);
  Look(true);
}

void StoreObserver::OnChange(std::string_view key, ChangeKind kind) {
  changed_ = true;
  for (Lock& lock : locks_) {
    if (kind == ChangeKind::kFlushed) {
      lock.holder_changed = lock.queue_changed = true;
    } else if (key.size() == lock.base.size() + 1 && key.starts_with(lock.base)) {
      const char part = key.back();
      if (part == 'h') {
        lock.holder_changed = true;
        lock.expired |= kind == ChangeKind::kExpired;
      }
      if (part == 'q' || part == 'w') lock.queue_changed = true;
    }
  }
}

void StoreObserver::Look(bool forgotten) {
  if (!changed_) return;
  changed_ = false;
  for (int32_t i = 0; i < static_cast<int32_t>(locks_.size()); ++i) {
    Lock& lock = locks_[static_cast<size_t>(i)];
    if (std::exchange(lock.holder_changed, false)) LookAtHolder(i, forgotten);
    if (std::exchange(lock.queue_changed, false)) LookAtQueue(i);
    lock.expired = false;
  }
}

void StoreObserver::LookAtHolder(int32_t index, bool forgotten) {
  Lock& lock = locks_[static_cast<size_t>(index)];
  std::optional<Holder> now;
  if (const auto value = store_->model().String(lock.base + "h"); value && !IsNobody(Part(*value, 1))) {
    const int64_t said = LeaseOf(*value);
    if (said >= 0) lease_of_.insert_or_assign(std::string(Part(*value, 1)), said);
    const auto known = lease_of_.find(Part(*value, 1));
    now = Holder{known == lease_of_.end() ? -1 : known->second, Number<uint64_t>(Part(*value, 2))};
  }
  if (now == lock.holder) return;
  if (lock.holder) {
    const FreedHow how = forgotten ? FreedHow::kForgotten : lock.expired ? FreedHow::kExpired : FreedHow::kReleased;
    Note(RecordKind::kFreed, index, lock.holder->lease, {.code = static_cast<uint8_t>(how)});
  }
  if (now) Note(RecordKind::kTook, index, now->lease, {.token = now->token});
  lock.holder = now;
}

void StoreObserver::LookAtQueue(int32_t index) {
  Lock& lock = locks_[static_cast<size_t>(index)];
  std::map<std::string, Place, std::less<>> now;
  const auto entries = store_->model().Hash(lock.base + "w");
  for (const auto& [owner, arrival] : store_->model().Zset(lock.base + "q")) {
    const auto old = lock.queue.find(owner);
    if (old != lock.queue.end() && old->second.arrival == static_cast<int64_t>(arrival)) {
      now.emplace(*old);
      continue;
    }
    for (const auto& [field, value] : entries) {
      if (field == owner) lease_of_.insert_or_assign(std::string(owner), LeaseOf(value));
    }
    // One whose entry was lost keeps its number for when it comes again.
    const auto known = lease_of_.find(owner);
    if (known != lease_of_.end()) now.emplace(owner, Place{known->second, static_cast<int64_t>(arrival)});
  }
  for (const auto& [owner, place] : lock.queue) {
    if (now.contains(owner) || (lock.holder && lock.holder->lease == place.lease)) continue;
    Note(RecordKind::kUnqueued, index, place.lease);
  }
  for (const auto& [owner, place] : now) {
    const auto old = lock.queue.find(owner);
    if (old != lock.queue.end() && old->second == place) continue;
    // Back at another place: another server's.
    if (old != lock.queue.end()) Note(RecordKind::kUnqueued, index, old->second.lease);
    Note(RecordKind::kQueued, index, place.lease, {.value = place.arrival});
  }
  lock.queue = std::move(now);
}

void StoreObserver::Forget(int32_t lock) { Note(RecordKind::kForgot, lock, -1); }

void StoreObserver::Note(RecordKind kind, int32_t lock, int64_t lease, Record record) {
  record.kind = kind;
  record.actor = store_->actor();
  record.lock = lock;
  record.lease = lease;
  env_.Note(record);
  env_.Log([&] {
    static const char* const kWords[] = {"queued", "out of the queue", "holds", "freed"};
    const int word = static_cast<int>(kind) - static_cast<int>(RecordKind::kQueued);
    return "      " + store_->name() + ": " + (lock < 0 ? "all" : env_.history.locks[static_cast<size_t>(lock)]) + " " +
           (word >= 0 && word < 4 ? kWords[word] : "forgotten") + (lease < 0 ? "" : " lease " + std::to_string(lease));
  });
}

std::vector<std::string> StoreObserver::Leftovers() const {
  std::vector<std::string> left;
  for (const KeyFacts& facts : store_->model().Keys()) {
    if (!facts.key.ends_with("}:t")) left.emplace_back(facts.key);
  }
  return left;
}

}  // namespace distlock::sim
