// SPDX-License-Identifier: Apache-2.0
#include "simulation/store_observer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "store/redis/script_caller.h"
#include "store/redis/wire_value.h"

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

// The number in a client's label, "..lease 17"; -1: there is none.
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

void StoreObserver::WatchAll(const std::vector<StoreProcess*>& stores, std::function<StoreProcess*(int32_t)> of) {
  stores_ = stores;
  of_ = std::move(of);
  store_ = stores_.front();
  for (StoreProcess* store : stores_) {
    store->model().OnChange([this](std::string_view key, ChangeKind kind) { OnChange(key, kind); });
  }
  SeeMoves();
}

void StoreObserver::AwaitEnds() {
  std::map<StoreProcess*, int64_t> first;
  for (int32_t i = 0; i < static_cast<int32_t>(locks_.size()); ++i) {
    StoreProcess* const store = of_(i);
    if (store == nullptr) continue;
    for (const auto& [owner, holder] : locks_[static_cast<size_t>(i)].holders) {
      if (holder.ends_us <= store->model().now_us()) continue;
      int64_t& at = first[store];
      if (at == 0 || holder.ends_us < at) at = holder.ends_us;
    }
  }
  for (StoreProcess* store : stores_) store->LookAt(first.contains(store) ? first[store] : 0);
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
  ++calls_;
  if (of_) {
    // As below: one of many holders may have expired.
    for (Lock& lock : locks_) {
      const bool many = std::any_of(lock.holders.begin(), lock.holders.end(),
                                    [](const auto& holder) { return holder.second.ends_us != 0; });
      lock.holder_changed |= many;
      changed_ |= many;
    }
    if (!std::exchange(changed_, false)) return;
    for (int32_t i = 0; i < static_cast<int32_t>(locks_.size()); ++i) {
      StoreProcess* const store = of_(i);
      if (store == nullptr) continue;
      store_ = store;
      LookAt(i, forgotten);
      locks_[static_cast<size_t>(i)].expired = false;
    }
    return AwaitEnds();
  }
  const int64_t now_us = store_->model().now_us();
  const bool stepped_back = now_us < std::exchange(seen_us_, now_us);
  if (stepped_back || (ends_us_ != 0 && ends_us_ <= now_us)) {
    // One of many holders may expire without a change of a key, and hold again when the clock has gone back.
    changed_ = true;
    for (Lock& lock : locks_) lock.holder_changed = true;
  }
  if (!changed_) return;
  changed_ = false;
  for (int32_t i = 0; i < static_cast<int32_t>(locks_.size()); ++i) {
    Lock& lock = locks_[static_cast<size_t>(i)];
    LookAt(i, forgotten);
    lock.expired = false;
  }
  ends_us_ = 0;
  for (const Lock& lock : locks_) {
    for (const auto& [owner, holder] : lock.holders) {
      if (holder.ends_us != 0 && (ends_us_ == 0 || holder.ends_us < ends_us_)) ends_us_ = holder.ends_us;
    }
  }
  store_->LookAt(ends_us_);
}

// Records in this order: a holder leaves, others get the lock, and they leave the queue.
void StoreObserver::LookAt(int32_t index, bool forgotten) {
  Lock& lock = locks_[static_cast<size_t>(index)];
  const Holders before = lock.holders;
  const bool holder_changed = std::exchange(lock.holder_changed, false);
  if (!holder_changed && !lock.queue_changed) return;
  if (holder_changed) {
    Holders now = HoldersOf(lock.base + "h");
    NoteFreed(index, now, forgotten);
    lock.holders = std::move(now);
    NoteDowngraded(index, before);
  }
  std::optional<Places> places;
  if (std::exchange(lock.queue_changed, false)) places = PlacesOf(lock);
  if (places) NoteUnqueued(index, *places, before);
  if (holder_changed) NoteTaken(index, lock.holders, before);
  if (places) {
    NoteQueued(index, *places);
    lock.queue = *std::move(places);
  }
  SeeAgain(index);
}

void StoreObserver::SeeAgain(int32_t index) {
  Lock& lock = locks_[static_cast<size_t>(index)];
  Sight now{.tokens = {}, .waiting = store_->model().Zset(lock.base + "q").size(), .since = env_.now()};
  for (const auto& [owner, holder] : lock.holders) now.tokens.push_back(holder.token);
  std::sort(now.tokens.begin(), now.tokens.end());
  if (now.SameAs(lock.sight)) return;
  lock.sight = std::move(now);
  if (on_sight_) on_sight_(index);
}

// An EXCLUSIVE holder is a string, other holders are the fields of a hash, without those that have expired.
StoreObserver::Holders StoreObserver::HoldersOf(const std::string& key) {
  Holders holders;
  const auto add = [&](std::string_view owner, std::string_view value, std::string_view token, int64_t ends_us) {
    const int64_t said = LeaseOf(value);
    if (said >= 0) lease_of_.insert_or_assign(std::string(owner), said);
    const auto known = lease_of_.find(owner);
    // In both formats: after owner or expiry, and five more parts. The bounds of the hold may stand in front of it, and
    // the holder's place and mark at one server of a quorum.
    int at = 6;
    for (const char bound : {'m', 'h'}) at += Part(value, at).starts_with(bound) ? 1 : 0;
    at += Part(value, at).starts_with('p') ? 2 : 0;
    const std::string_view info_first = Part(value, at);
    holders.emplace(owner, Holder{known == lease_of_.end() ? -1 : known->second, Number<uint64_t>(token), ends_us,
                                  std::string(info_first)});
  };
  if (const auto value = store_->model().String(key); value && !IsNobody(Part(*value, 1))) {
    add(Part(*value, 1), *value, Part(*value, 2), 0);
  }
  for (const auto& [field, slot] : store_->model().Hash(key)) {
    const auto ends_us = Number<int64_t>(Part(slot, 0));
    if (field.size() == 32 && ends_us > store_->model().now_us()) add(field, slot, Part(slot, 1), ends_us);
  }
  return holders;
}

// Also under another owner, who has adopted the grant.
bool StoreObserver::Has(const Holders& holders, const Holder& holder) {
  return std::any_of(holders.begin(), holders.end(), [&](const auto& one) {
    return one.second.token == holder.token && one.second.lease == holder.lease;
  });
}

void StoreObserver::NoteFreed(int32_t index, const Holders& now, bool forgotten) {
  const Lock& lock = locks_[static_cast<size_t>(index)];
  for (const auto& [owner, before] : lock.holders) {
    if (Has(now, before)) continue;
    const bool expired = lock.expired || (before.ends_us != 0 && before.ends_us <= store_->model().now_us());
    const FreedHow how = forgotten                          ? FreedHow::kForgotten
                         : expired                          ? FreedHow::kExpired
                         : store_->script() == &lua::kForce ? FreedHow::kForced
                                                            : FreedHow::kReleased;
    Note(RecordKind::kFreed, index, before.lease, {.code = static_cast<uint8_t>(how), .token = before.token});
  }
}

// The same grant, now in the hash of SHARED holders.
void StoreObserver::NoteDowngraded(int32_t index, const Holders& before) {
  for (const auto& [owner, holder] : locks_[static_cast<size_t>(index)].holders) {
    const auto was = before.find(owner);
    if (was == before.end() || was->second.token != holder.token || was->second.ends_us != 0 || holder.ends_us == 0)
      continue;
    Note(RecordKind::kDowngraded, index, holder.lease, {.token = holder.token});
  }
}

std::optional<core::ForceRelease> StoreObserver::Force() {
  std::vector<Held> all;
  for (int32_t i = 0; i < static_cast<int32_t>(locks_.size()); ++i) {
    for (const auto& holder : locks_[static_cast<size_t>(i)].holders) {
      if (holder.second.lease >= 0) all.emplace_back(i, holder);
    }
  }
  return ForceOneOf(all);
}

std::optional<core::ForceRelease> StoreObserver::ForceAtMost(const std::vector<StoreProcess*>& stores) {
  std::vector<Held> all;
  for (int32_t i = 0; i < static_cast<int32_t>(locks_.size()); ++i) {
    std::map<std::pair<std::string, uint64_t>, size_t> votes;
    for (StoreProcess* store : stores) {
      store_ = store;
      for (const auto& holder : HoldersOf(locks_[static_cast<size_t>(i)].base + "h")) {
        const size_t count = ++votes[{holder.first, holder.second.token}];
        if (holder.second.lease >= 0 && count == stores.size() / 2 + 1) all.emplace_back(i, holder);
      }
    }
  }
  return ForceOneOf(all);
}

std::vector<int64_t> StoreObserver::LeasesAt(StoreProcess& store, int32_t lock) {
  store_ = &store;
  std::vector<int64_t> leases;
  for (const auto& [owner, holder] : HoldersOf(locks_[static_cast<size_t>(lock)].base + "h")) {
    leases.push_back(holder.lease);
  }
  return leases;
}

std::optional<core::ForceRelease> StoreObserver::ForceOneOf(const std::vector<Held>& all) {
  if (all.empty()) return std::nullopt;
  const auto& [lock, holder] = env_.dice.Pick(all);
  const auto owner = store::ParseOwner(holder.first);
  if (!owner) return std::nullopt;
  Note(RecordKind::kForced, lock, holder.second.lease, {.token = holder.second.token});
  return core::ForceRelease{.name = core::LockName::Encode("default", env_.history.locks[static_cast<size_t>(lock)]),
                            .owner = *owner,
                            .token = holder.second.token,
                            .broker_id = holder.second.broker_id,
                            .reason = "an administrator"};
}

// In the order in which one script granted them.
void StoreObserver::NoteTaken(int32_t index, const Holders& now, const Holders& before) {
  std::vector<Holder> fresh;
  for (const auto& [owner, holder] : now) {
    if (!Has(before, holder)) fresh.push_back(holder);
  }
  std::ranges::sort(fresh, {}, &Holder::token);
  for (const Holder& holder : fresh) {
    const Places& queue = locks_[static_cast<size_t>(index)].queue;
    Note(RecordKind::kTook, index, holder.lease, {.token = holder.token});
    for (const auto& [owner, place] : queue) {
      if (place.lease == holder.lease) CheckHears(index, place);
    }
  }
}

// The store must not grant the lock to a waiter whose broker is dead and, by the store's own record, has been silent
// for a queue slot: the lock would be unused for a ttl.
void StoreObserver::CheckHears(int32_t index, const Place& place) {
  // A calling broker is alive, and an acquire may take the lock for its own caller. A dead broker's last commands may
  // come late.
  const bool may_ask = store_->script() == &lua::kAcquire || store_->script() == &lua::kBatch;
  if (may_ask || store_->IsCaller(place.broker_id) || !env_.dead_brokers.contains(place.broker_id)) return;
  const std::string slot = locks_[static_cast<size_t>(index)].base + "b:" + place.broker_id;
  if (store_->model().String(slot)) return;
  env_.Fail(store_->name() + " gave " + env_.history.locks[static_cast<size_t>(index)] + " to lease " +
            std::to_string(place.lease) + ", though its broker is gone and its queue slot has run out");
}

StoreObserver::Places StoreObserver::PlacesOf(const Lock& lock) {
  Places places;
  const auto entries = store_->model().Hash(lock.base + "w");
  const auto broker_of = [&](std::string_view owner) {
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& one) { return one.first == owner; });
    return entry == entries.end() ? std::string() : std::string(Part(entry->second, 0));
  };
  for (const auto& [owner, arrival] : store_->model().Zset(lock.base + "q")) {
    const auto old = lock.queue.find(owner);
    if (old != lock.queue.end() && old->second.arrival == static_cast<int64_t>(arrival)) {
      // A request that is repeated through another broker keeps its place.
      places.emplace(*old).first->second.broker_id = broker_of(owner);
      continue;
    }
    for (const auto& [field, value] : entries) {
      if (field == owner) lease_of_.insert_or_assign(std::string(owner), LeaseOf(value));
    }
    // A waiter whose entry was lost keeps its lease number for its next entry.
    const auto known = lease_of_.find(owner);
    if (known != lease_of_.end())
      places.emplace(owner, Place{known->second, static_cast<int64_t>(arrival), broker_of(owner)});
  }
  return places;
}

// Whether the same request has this place, perhaps by another try of it, whose owner differs.
bool StoreObserver::HasPlace(const Places& places, const Place& place) {
  return std::any_of(places.begin(), places.end(), [&](const auto& one) {
    return one.second.lease == place.lease && one.second.arrival == place.arrival;
  });
}

// Records waiters that are neither queued nor holders now. A waiter at another place came from another server's data.
void StoreObserver::NoteUnqueued(int32_t index, const Places& now, const Holders& before) {
  const Lock& lock = locks_[static_cast<size_t>(index)];
  for (const auto& [owner, place] : lock.queue) {
    if (HasPlace(now, place)) continue;
    const bool granted = std::any_of(lock.holders.begin(), lock.holders.end(), [&](const auto& one) {
      // A try that had no place of its own was granted the lock in this one.
      const bool by_another = one.second.lease == place.lease && !lock.queue.contains(one.first);
      return one.first == owner || (by_another && !Has(before, one.second));
    });
    if (now.contains(owner) || !granted) Note(RecordKind::kUnqueued, index, place.lease);
  }
}

void StoreObserver::NoteQueued(int32_t index, const Places& now) {
  const Lock& lock = locks_[static_cast<size_t>(index)];
  for (const auto& [owner, place] : now) {
    if (!HasPlace(lock.queue, place)) {
      Note(RecordKind::kQueued, index, place.lease, {.value = place.arrival});
    }
  }
}

void StoreObserver::Forget(int32_t lock) { Note(RecordKind::kForgot, lock, -1); }

void StoreObserver::Note(RecordKind kind, int32_t lock, int64_t lease, Record record) {
  record.kind = kind;
  record.actor = store_->actor();
  record.lock = lock;
  record.lease = lease;
  if (kind != RecordKind::kQueued) record.value = calls_;
  env_.Note(record);
  env_.Log([&] {
    static const char* const kWords[] = {"queued", "out of the queue", "holds",
                                         "freed",  "shares",           "is to be taken from"};
    const int word = static_cast<int>(kind) - static_cast<int>(RecordKind::kQueued);
    return "      " + store_->name() + ": " + (lock < 0 ? "all" : env_.history.locks[static_cast<size_t>(lock)]) + " " +
           (word >= 0 && word < 6 ? kWords[word] : "forgotten") + (lease < 0 ? "" : " lease " + std::to_string(lease));
  });
}

std::vector<std::string> StoreObserver::Leftovers(const RedisModel& model) {
  std::vector<std::string> left;
  for (const KeyFacts& facts : model.Keys()) {
    const bool is_mark = facts.key == "dl:m" || facts.key == "dl:beat" || facts.key == "dl:set" ||
                         facts.key == "dl:set-new" || facts.key.ends_with("}:m") || facts.key.ends_with("}:beat");
    const bool stays = facts.key.ends_with("}:t") || is_mark;
    if (!stays) left.emplace_back(facts.key);
  }
  return left;
}

}  // namespace distlock::sim
