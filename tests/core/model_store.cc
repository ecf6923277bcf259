// SPDX-License-Identifier: Apache-2.0
#include "model_store.h"

#include <algorithm>
#include <set>

namespace distlock::core {
namespace {

constexpr int64_t kTokenKeepMs = 24 * 3600 * 1000;

int64_t CeilMs(Duration duration) {
  return std::max<int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

auto Place(std::vector<std::pair<int64_t, OwnerId>>& queue, const OwnerId& owner) {
  return std::find_if(queue.begin(), queue.end(), [&](const auto& place) { return place.second == owner; });
}

}  // namespace

ModelStore::ModelStore(Hooks hooks, bool trusted, Duration queue_slot)
    : hooks_(std::move(hooks)), trusted_(trusted), slot_ms_(CeilMs(queue_slot)) {}

void ModelStore::Advance(StoreTime now) {
  now_us_ = std::max(now_us_, now.us);
  for (auto& [name, lock] : locks_) Purge(name, lock);
}

void ModelStore::Purge(const LockName& name, Lock& lock) {
  const int64_t now = NowMs();
  if (lock.holder && now > lock.holder_end) {
    hooks_.expired(name, lock.holder->owner);
    Vacate(name, lock);
  }
  if (lock.token != 0 && now > lock.token_end) lock.token = 0;
  if (!lock.queue.empty() && now > lock.queue_end) lock.queue.clear();
  if (!lock.waiters.empty() && now > lock.waiters_end) lock.waiters.clear();
  std::erase_if(lock.slots, [now](const auto& slot) { return now > slot.second; });
}

void ModelStore::Vacate(const LockName& name, Lock& lock) {
  const OwnerId owner = lock.holder->owner;
  lock.holder.reset();
  hooks_.freed(name, owner);
}

std::optional<StoreTime> ModelStore::NextExpiry() const {
  std::optional<StoreTime> next;
  for (const auto& [name, lock] : locks_) {
    if (!lock.holder) continue;
    const StoreTime end{(lock.holder_end + 1) * 1000};
    if (!next || end < *next) next = end;
  }
  return next;
}

ModelStore::Outcome ModelStore::Run(BrokerNumber broker, const StoreCommand& command) {
  return std::visit([&](const auto& in) { return Do(broker, in); }, command);
}

void ModelStore::Take(Lock& lock, const OwnerId& owner, uint64_t token, Terms terms) {
  lock.holder = Holder{owner, token, now_us_, terms};
  lock.holder_end = NowMs() + terms.ttl_ms + terms.delay_ms;
}

HolderView ModelStore::View(const Lock& lock) const {
  const Holder& holder = *lock.holder;
  HolderView view;
  view.owner = holder.owner;
  view.token = holder.token;
  view.since = StoreTime{holder.since_us};
  view.ttl = std::chrono::milliseconds(holder.terms.ttl_ms);
  view.lock_delay = std::chrono::milliseconds(holder.terms.delay_ms);
  view.time_left = std::chrono::milliseconds(lock.holder_end - NowMs());
  return view;
}

ModelStore::Outcome ModelStore::Do(BrokerNumber broker, const StoreAcquire& in) {
  if (in.not_after.us > 0 && now_us_ >= in.not_after.us) return AcquireLate{};
  Lock& lock = locks_[in.name];
  const Terms terms{CeilMs(in.ttl), in.lock_delay > Duration::zero() ? CeilMs(in.lock_delay) : 0};
  if (lock.holder && lock.holder->owner == in.owner) {
    lock.holder_end = NowMs() + terms.ttl_ms + terms.delay_ms;
    return AcquireGranted{lock.holder->token, StoreTime{lock.holder->since_us}};
  }
  if (!lock.holder) {
    const auto winner = HandOff(in.name, lock, broker, /*quiet=*/false, 0, Caller{in.owner, terms});
    if (winner && winner->owner == in.owner) return AcquireGranted{lock.holder->token, StoreTime{now_us_}};
  }
  std::optional<HolderView> holder;
  if (lock.holder) holder = View(lock);
  if (!in.wait) return AcquireHeld{holder, static_cast<uint32_t>(lock.queue.size())};
  auto place = Place(lock.queue, in.owner);
  if (place == lock.queue.end()) {
    if (lock.queue.empty()) lock.waiters.clear();
    lock.queue.emplace_back(lock.queue.empty() ? 1 : lock.queue.back().first + 1, in.owner);
    place = std::prev(lock.queue.end());
    hooks_.queued(in.name, in.owner);
  }
  lock.waiters[in.owner] = Entry{broker, terms};
  lock.slots[broker] = lock.queue_end = lock.waiters_end = NowMs() + slot_ms_;
  return AcquireQueued{static_cast<uint32_t>(place - lock.queue.begin()), holder,
                       static_cast<uint32_t>(lock.queue.size())};
}

// To the first living waiter; the caller, if any, has its own place or the last one.
std::optional<ModelStore::Winner> ModelStore::HandOff(const LockName& name, Lock& lock, BrokerNumber broker, bool quiet,
                                                      uint64_t floor, const std::optional<Caller>& caller) {
  const uint64_t token = std::max({lock.token + 1, floor + 1, static_cast<uint64_t>(now_us_)});
  std::set<BrokerNumber> deaf;
  std::vector<OwnerId> gone;
  std::optional<Winner> winner;
  for (const auto& [score, owner] : lock.queue) {
    if (caller && owner == caller->owner) {
      Take(lock, owner, token, caller->terms);
      winner = Winner{owner, broker};
    } else if (const auto entry = lock.waiters.find(owner);
               entry == lock.waiters.end() ||
               (entry->second.broker != broker && !lock.slots.contains(entry->second.broker))) {
      gone.push_back(owner);
    } else if (const Entry who = entry->second; !deaf.contains(who.broker)) {
      Take(lock, owner, token, who.terms);
      const GrantNotice notice{name, owner, token, StoreTime{now_us_}, std::chrono::milliseconds(who.terms.ttl_ms)};
      if ((quiet && who.broker == broker) || hooks_.publish(who.broker, notice) || !trusted_) {
        winner = Winner{owner, who.broker};
      } else {
        deaf.insert(who.broker);
      }
    }
    if (winner) break;
  }
  if (winner) {
    gone.push_back(winner->owner);
  } else if (caller) {
    Take(lock, caller->owner, token, caller->terms);
    winner = Winner{caller->owner, broker};
  } else {
    lock.holder.reset();
  }
  if (winner) {
    lock.token = token;
    lock.token_end = NowMs() + kTokenKeepMs;
    hooks_.granted(name, winner->owner, token);
  }
  for (const BrokerNumber number : deaf) lock.slots.erase(number);
  for (const OwnerId& owner : gone) {
    if (const auto place = Place(lock.queue, owner); place != lock.queue.end()) lock.queue.erase(place);
    lock.waiters.erase(owner);
  }
  return winner;
}

ModelStore::Outcome ModelStore::Do(BrokerNumber, const StoreRenew& in) {
  RenewDoneBatch done;
  for (const RenewItem& item : in.items) {
    Lock& lock = locks_[item.name];
    if (!lock.holder) {
      done.results.push_back(RenewResult::kGone);
    } else if (!Is(*lock.holder, item.owner, item.token)) {
      done.results.push_back(RenewResult::kAnothers);
    } else {
      int64_t px = CeilMs(item.ttl);
      if (item.hold_until.us > 0) px = std::min(px, (item.hold_until.us - now_us_) / 1000);
      if (px <= 0) {
        done.results.push_back(RenewResult::kGone);
        continue;
      }
      lock.holder_end = NowMs() + px + lock.holder->terms.delay_ms;
      done.results.push_back(RenewResult::kRenewed);
    }
  }
  return done;
}

GiveBackDone ModelStore::Free(const LockName& name, Lock& lock, BrokerNumber broker) {
  const uint64_t floor = lock.holder->token;
  Vacate(name, lock);
  GiveBackDone done{.was_holder = true, .was_waiter = false, .next = std::nullopt};
  if (lock.queue.empty()) return done;
  const auto winner = HandOff(name, lock, broker, /*quiet=*/true, floor, std::nullopt);
  if (winner && winner->broker == broker) done.next = View(lock);
  return done;
}

ModelStore::Outcome ModelStore::Do(BrokerNumber broker, const StoreRelease& in) {
  Lock& lock = locks_[in.name];
  if (!lock.holder || !Is(*lock.holder, in.owner, in.token)) return GiveBackDone{};
  if (in.block <= Duration::zero()) return Free(in.name, lock, broker);
  lock.holder_end = NowMs() + CeilMs(in.block);
  lock.holder->owner = OwnerId{};
  hooks_.freed(in.name, in.owner);
  TellOfBlock(in.name, lock, broker, in.block);
  return GiveBackDone{.was_holder = true, .was_waiter = false, .next = std::nullopt};
}

void ModelStore::TellOfBlock(const LockName& name, const Lock& lock, BrokerNumber broker, Duration block) {
  for (const auto& [score, owner] : lock.queue) {
    const auto entry = lock.waiters.find(owner);
    if (entry == lock.waiters.end()) continue;
    const BrokerNumber number = entry->second.broker;
    if (number == broker) return;
    if (!lock.slots.contains(number)) continue;
    const GrantNotice notice{name, {}, 0, StoreTime{now_us_}, std::chrono::milliseconds(CeilMs(block))};
    if (hooks_.publish(number, notice) || !trusted_) return;
  }
}

ModelStore::Outcome ModelStore::Do(BrokerNumber broker, const StoreWithdraw& in) {
  Lock& lock = locks_[in.name];
  if (!in.keep_grant && lock.holder && lock.holder->owner == in.owner) return Free(in.name, lock, broker);
  const auto entry = lock.waiters.find(in.owner);
  if (entry != lock.waiters.end() && entry->second.broker != broker) return GiveBackDone{};
  lock.waiters.erase(in.owner);
  const auto place = Place(lock.queue, in.owner);
  if (place == lock.queue.end()) return GiveBackDone{};
  lock.queue.erase(place);
  hooks_.withdrawn(in.owner);
  return GiveBackDone{.was_holder = false, .was_waiter = true, .next = std::nullopt};
}

ModelStore::Outcome ModelStore::Do(BrokerNumber broker, const StoreTend& in) {
  Lock& lock = locks_[in.name];
  const auto slot = lock.slots.find(broker);
  if (slot != lock.slots.end()) slot->second = NowMs() + slot_ms_;
  if (slot == lock.slots.end() || lock.queue.empty() || lock.queue.size() != lock.waiters.size()) {
    return TendDone{.slot_was_gone = true, .more = false, .holder = std::nullopt};
  }
  lock.queue_end = lock.waiters_end = NowMs() + slot_ms_;
  if (!lock.holder) HandOff(in.name, lock, broker, /*quiet=*/true, 0, std::nullopt);
  TendDone done;
  if (lock.holder) done.holder = View(lock);
  return done;
}

void ModelStore::FlushAll() {
  for (auto& [name, lock] : locks_) {
    if (lock.holder) Vacate(name, lock);
  }
  locks_.clear();
}

void ModelStore::Delete(const LockName& name, Part part) {
  const auto found = locks_.find(name);
  if (found == locks_.end()) return;
  Lock& lock = found->second;
  switch (part) {
    case Part::kHolder:
      if (lock.holder) Vacate(name, lock);
      break;
    case Part::kToken: lock.token = 0; break;
    case Part::kQueue: lock.queue.clear(); break;
    case Part::kWaiters: lock.waiters.clear(); break;
    case Part::kSlots: lock.slots.clear(); break;
  }
}

std::vector<std::pair<LockName, OwnerId>> ModelStore::Holders() const {
  std::vector<std::pair<LockName, OwnerId>> holders;
  for (const auto& [name, lock] : locks_) {
    if (lock.holder) holders.emplace_back(name, lock.holder->owner);
  }
  return holders;
}

const OwnerId* ModelStore::HolderOf(const LockName& name) const {
  const auto found = locks_.find(name);
  return found == locks_.end() || !found->second.holder ? nullptr : &found->second.holder->owner;
}

size_t ModelStore::Keys() const {
  size_t keys = 0;
  for (const auto& [name, lock] : locks_) {
    keys += (lock.holder ? 1 : 0) + (lock.queue.empty() ? 0 : 1) + (lock.waiters.empty() ? 0 : 1) + lock.slots.size();
  }
  return keys;
}

}  // namespace distlock::core
