// SPDX-License-Identifier: Apache-2.0
#include "core/linger.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/grants.h"
#include "core/leases.h"
#include "core/limits.h"
#include "core/notes.h"
#include "core/pending_releases.h"
#include "core/sessions.h"

namespace distlock::core {
namespace {

// Beyond so many locks those are forgotten that were not used for a while.
constexpr size_t kMostRemembered = 4096;
constexpr Duration kRemembered = std::chrono::seconds(10);
constexpr Duration kLongestPause = std::chrono::seconds(60);

}  // namespace

// The lock of a Hold stream is not kept: its release may come through any broker.
bool Linger::IsOfSession(const Waiter& waiter, const Sessions& sessions) {
  if (waiter.callers.empty()) return false;
  const Session* const session = sessions.Find(waiter.callers.front().listener.session);
  return session != nullptr && session->kind == SessionKind::kSession;
}

bool Linger::is_on() const {
  return core_.config.linger > Duration::zero() && !core_.config.store.is_quorum && core_.config.store.replicas == 0;
}

// What the lock of such a lease may be kept for, and given to.
bool Linger::Suits(const Acquire& spec, Mode mode) {
  return spec.may_linger && !spec.detached && spec.want.mode == mode && spec.lock_delay == Duration::zero() &&
         spec.max_hold == Duration::zero() && spec.min_hold == Duration::zero() && !spec.resume;
}

Linger::Lock* Linger::Find(const LockName& name) {
  const auto found = locks_.find(name);
  return found == locks_.end() ? nullptr : &found->second;
}

Linger::Lock& Linger::LockOf(const LockName& name) {
  if (locks_.size() >= std::max(forget_at_, kMostRemembered)) ForgetIdle();
  Lock& lock = locks_[name];
  lock.used = core_.now;
  return lock;
}

void Linger::ForgetIdle() {
  absl::erase_if(locks_, [this](const auto& entry) {
    const Lock& lock = entry.second;
    const bool is_kept = lock.lingering != nullptr || to_.covers.Find(entry.first) != nullptr;
    return lock.waiters == 0 && !is_kept && !to_.leases.Contains(lock.holder) && core_.now - lock.used > kRemembered &&
           core_.now >= lock.pause_until;
  });
  forget_at_ = 2 * locks_.size();
}

// ---- Acquires ----

bool Linger::Regrant(Waiter& waiter) {
  if (!is_on() || size() == 0 || !core_.store_up || core_.draining) return false;
  if (Suits(waiter.spec, Mode::kShared)) {
    Cover* const cover = to_.covers.Find(waiter.spec.name);
    return cover != nullptr && IsOfSession(waiter, to_.sessions) && to_.covers.Join(*cover, waiter);
  }
  Lock* const lock = Find(waiter.spec.name);
  return lock != nullptr && lock->lingering != nullptr && RegrantKept(waiter, *lock);
}

bool Linger::RegrantKept(Waiter& waiter, Lock& lock) {
  LingeringLock& before = *lock.lingering;
  const Acquire& spec = waiter.spec;
  if (!Suits(spec, Mode::kExclusive) || !IsOfSession(waiter, to_.sessions) || spec.ttl > before.ttl) return false;
  // An owner of which something else is still to be told to the store is no usual one.
  if (spec.owner == before.owner || to_.releases.Contains(spec.owner) || to_.notes.Contains(spec.owner)) return false;
  if (!to_.notes.MayTell(before.name, before.owner)) return false;
  const Instant deadline = std::min(before.deadline, core_.now + spec.ttl - core_.Margin(spec.ttl));
  if (deadline - core_.now < spec.ttl / 2) return false;
  // No less than the last token, and no more than the store's clock shows: so any later grant gets a greater one, even
  // if the store never hears of this one.
  const auto passed = std::chrono::floor<std::chrono::microseconds>(core_.Shortened(core_.now - before.base_at));
  const StoreTime shows{before.base.us + passed.count()};
  if (shows.us <= 0 || static_cast<uint64_t>(shows.us) <= before.token) return false;

  const std::unique_ptr<LingeringLock> kept = std::move(lock.lingering);
  core_.timers.Cancel(*kept);
  --lingering_;
  const LockName name = spec.name;
  const OwnerId owner = spec.owner;
  NotedGrant to{.owner = owner, .token = static_cast<uint64_t>(shows.us), .ttl = spec.ttl, .info = spec.info};
  to_.grants.Grant(waiter, {.token = to.token,
                            .since = shows,
                            .made = core_.now,
                            .ttl = spec.ttl,
                            .deadline = deadline,
                            .arrival = Arrival::kAnswer});
  Lease* const lease = to_.leases.Find(owner);
  DISTLOCK_CHECK(lease != nullptr);
  lease->lingers = true;
  lease->base = kept->base;
  lease->base_at = kept->base_at;
  lock.holder = owner;
  to_.leases.AwaitNote(*lease);
  Note(name, LingerOutcome::kGranted);
  to_.notes.Tell(name, {.owner = kept->owner, .token = kept->token, .ttl = kept->ttl, .info = {}}, std::move(to));
  return true;
}

void Linger::OnWaiter(Waiter& waiter) {
  if (!is_on()) return;
  waiter.counted = true;
  Lock& lock = LockOf(waiter.spec.name);
  ++lock.waiters;
  if (Cover* const cover = to_.covers.Find(waiter.spec.name); cover != nullptr) return to_.covers.Settle(*cover);
  if (lock.lingering != nullptr) return End(lock);
  if (to_.leases.Contains(lock.holder)) lock.wanted = true;
}

void Linger::OnWaiterGone(const Waiter& waiter) {
  if (!waiter.counted) return;
  Lock* const lock = Find(waiter.spec.name);
  DISTLOCK_CHECK(lock != nullptr && lock->waiters > 0);
  --lock->waiters;
  if (waiter.awaits) --lock->joiners;
  if (lock->attempt != waiter.spec.owner) return;
  lock->attempt = {};
  lock->orphan = waiter.spec.owner;
}

bool Linger::MayLinger(const Waiter& waiter) {
  const bool reads = core_.config.covers && Suits(waiter.spec, Mode::kShared);
  if (!is_on() || core_.draining || waiter.bundle != nullptr || !(reads || Suits(waiter.spec, Mode::kExclusive))) {
    return false;
  }
  if (!IsOfSession(waiter, to_.sessions)) return false;
  Lock* const lock = Find(waiter.spec.name);
  if (lock == nullptr || lock->waiters > lock->joiners + 1 || core_.now < lock->pause_until) return false;
  if (!reads) return lock->grants > 0;
  // Readers come together: the first one already is one that others may join.
  if (to_.covers.Find(waiter.spec.name) != nullptr || to_.releases.Contains(waiter.spec.owner)) return false;
  if (HasReaders(*lock)) return false;
  lock->attempt = waiter.spec.owner;
  lock->attempt_ttl = waiter.spec.ttl;
  return true;
}

void Linger::OnGranted(Lease& lease, const Waiter& waiter, const GrantNews& news) {
  const bool reads = core_.config.covers && waiter.spec.want.mode == Mode::kShared;
  if (reads && waiter.lingers && news.cover_to != 0 && to_.covers.Find(lease.name) == nullptr) {
    return OnCover(LockOf(lease.name), lease, waiter, news);
  }
  if (!is_on()) return;
  if (reads) return OnReader(lease);
  if (!Suits(waiter.spec, Mode::kExclusive)) return;
  const bool directly = news.arrival == Arrival::kAnswer && waiter.attempts == 1 && !waiter.answered;
  Lock& lock = LockOf(lease.name);
  lock.grants = directly ? lock.grants + 1 : 0;
  lease.lingers = directly && waiter.lingers;
  lease.base = news.since;
  lease.base_at = core_.now;
  const bool recalled = std::exchange(lock.early, false);
  if (!lease.lingers) return;
  lock.holder = lease.owner;
  lock.wanted = recalled || lock.waiters > (waiter.counted ? 1U : 0U);
}

// ---- Ends ----

bool Linger::Keep(const Release& in) {
  if (!is_on() || in.acquire == 0 || in.lapsed || core_.draining || !core_.store_up) return false;
  const Session* const session = to_.sessions.Find(in.session);
  if (session == nullptr) return false;
  const auto found = session->leases.find(in.acquire);
  if (found == session->leases.end()) return false;
  Lease& lease = *found->second;
  if (Cover* const cover = to_.notes.CoverOf(lease.owner); cover != nullptr) return LeaveCover(*cover, lease, in);
  if (!lease.lingers || lease.at_risk || lease.bundle != nullptr) return false;
  if (lease.reentry != nullptr && !lease.reentry->others.empty()) return false;
  Lock* const lock = Find(lease.name);
  if (lock == nullptr || lock->holder != lease.owner || lock->wanted || lock->waiters > 0) return false;
  const Instant end = std::min(core_.now + core_.config.linger, lease.deadline - lease.ttl / 2);
  if (end <= core_.now) return false;

  DISTLOCK_CHECK(lock->lingering == nullptr);
  lock->lingering = std::make_unique<LingeringLock>();
  LingeringLock& kept = *lock->lingering;
  kept.name = lease.name;
  kept.owner = lease.owner;
  kept.token = lease.token;
  kept.ttl = lease.ttl;
  kept.deadline = lease.deadline;
  kept.base = lease.base;
  kept.base_at = lease.base_at;
  ++lingering_;
  lock->used = core_.now;
  to_.leases.NoteEnd(lease, FactKind::kReleased, LostReason{}, "");
  core_.Tell({in.session, in.request}, Released{ReleaseOutcome::kReleased, kept.name, kept.owner, kept.token});
  to_.leases.Forget(lease);
  core_.Arm(kept, end);
  return true;
}

void Linger::Note(const LockName& name, LingerOutcome outcome) {
  core_.Note({.kind = FactKind::kLingered, .linger = outcome, .name = name, .detail = {}});
}

// Gives the lock back under the owner that the store knows, or is being told of.
void Linger::End(Lock& lock, LingerOutcome outcome) {
  const std::unique_ptr<LingeringLock> kept = std::move(lock.lingering);
  Note(kept->name, outcome);
  core_.timers.Cancel(*kept);
  --lingering_;
  const auto [owner, token] = to_.notes.Settle(kept->name, kept->owner, kept->token);
  PendingRelease& release =
      to_.releases.Start(kept->name, owner, /*waiting=*/false, Duration::zero(), kept->ttl, token);
  release.token = token;
  to_.releases.Pursue(release);
}

void Linger::OnTimer(LingeringLock& lingering) { End(*Find(lingering.name)); }

void Linger::EndOf(const LockName& name, const OwnerId& owner) {
  OnAwaited(owner);
  if (lingering_ == 0) return;
  Lock* const lock = Find(name);
  if (lock != nullptr && lock->lingering != nullptr && lock->lingering->owner == owner) End(*lock);
}

void Linger::EndFor(const LockName& name) {
  if (Cover* const cover = to_.covers.Find(name); cover != nullptr) to_.covers.Settle(*cover);
  if (lingering_ == 0) return;
  if (Lock* const lock = Find(name); lock != nullptr && lock->lingering != nullptr) End(*lock);
}

void Linger::EndAll() {
  for (Cover* const cover : to_.covers.All()) to_.covers.Settle(*cover);
  std::vector<LingeringLock*> all;
  if (lingering_ == 0) return;
  for (auto& [name, lock] : locks_) {
    if (lock.lingering != nullptr) all.push_back(lock.lingering.get());
  }
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  for (LingeringLock* const one : all) End(*Find(one->name));
}

void Linger::EndAllForGood() {
  EndAll();
  for (auto& [name, lock] : locks_) lock.wanted = true;
}

void Linger::Recall(const LockName& name) {
  Lock* const lock = Find(name);
  if (lock == nullptr) return;
  if (Cover* const cover = to_.covers.Find(name); cover != nullptr) {
    if (cover->spreading) return;
    Note(name, LingerOutcome::kRecalled);
    Pause(*lock);
    return to_.covers.Settle(*cover);
  }
  if (lock->lingering != nullptr) {
    Pause(*lock);
    return End(*lock, LingerOutcome::kRecalled);
  }
  // What a try has is kept for the next one. A cover that nobody is under is not: it would hold up all other readers.
  to_.releases.Hurry(std::exchange(lock->orphan, {}));
  if (SpreadAgain(*lock)) return;
  if (!to_.leases.Contains(lock->holder)) {
    // The store may have granted it already: recalls and answers come by different connections.
    lock->early = lock->waiters > 0;
    return;
  }
  if (lock->wanted) return;
  Note(name, LingerOutcome::kRecalled);
  Pause(*lock);
  lock->wanted = true;
}

// Nothing is given on from then. What lingers is given back; a lease has its mark taken off, after which any broker may
// act on it; and of an owner that a note names, or that is being released, the store knows better in a moment.
void Linger::Handle(const SettleNotice& in) {
  if (!is_on()) return;
  if (Cover* const cover = to_.notes.CoverOf(in.owner); cover != nullptr) return to_.covers.Settle(*cover);
  EndOf(in.name, in.owner);
  if (Lease* const lease = to_.leases.Find(in.owner); lease != nullptr) lease->lingers = false;
  if (const Lock* const lock = Find(in.name); lock != nullptr && lock->spread == in.owner && SpreadAgain(*lock)) return;
  if (!core_.store_up || to_.notes.Contains(in.owner) || to_.releases.Contains(in.owner)) return;
  to_.notes.Unmark(in.name, in.owner, in.token);
}

void Linger::Handle(const BeforeLook& in) {
  if (!in.name) {
    for (Cover* const cover : to_.covers.All()) to_.covers.Settle(*cover);
  } else if (Cover* const cover = to_.covers.Find(*in.name); cover != nullptr) {
    to_.covers.Settle(*cover);
  }
}

void Linger::Pause(Lock& lock) {
  if (core_.now - lock.pause_until > kLongestPause) lock.recalls = 0;
  const Duration pause = core_.config.linger_pause * (int64_t{1} << std::min<uint32_t>(lock.recalls++, 16));
  lock.pause_until = core_.now + std::min(pause, kLongestPause);
  lock.grants = 0;
}

// ---- What the store has answered ----

void Linger::OnNoted(const LockName& name, const OwnerId& owner, Instant sent, Duration ttl, uint32_t queue_length,
                     bool is_known) {
  Lock* const lock = Find(name);
  if (Cover* const cover = to_.notes.CoverOf(owner); cover != nullptr) to_.covers.OnNoted(*cover, sent);
  if (Lease* const lease = to_.leases.Find(owner); lease != nullptr) {
    to_.leases.OnNoted(*lease, sent, ttl, is_known);
  } else if (lock != nullptr && lock->lingering != nullptr && lock->lingering->owner == owner) {
    LingeringLock& kept = *lock->lingering;
    const Duration least = std::min(ttl, kept.ttl);
    kept.deadline = std::max(kept.deadline, sent + least - core_.Margin(least));
  }
  if (queue_length > 0 && lock != nullptr && lock->waiters == 0) Recall(name);
}

void Linger::OnNotOurs(const LockName& name, const OwnerId& owner) {
  if (Cover* const cover = to_.notes.CoverOf(owner); cover != nullptr) return to_.covers.OnNotOurs(*cover);
  if (Lease* const lease = to_.leases.Find(owner); lease != nullptr) return to_.leases.OnNotOurs(*lease);
  Lock* const lock = Find(name);
  if (lock == nullptr || lock->lingering == nullptr || lock->lingering->owner != owner) return;
  core_.timers.Cancel(*lock->lingering);
  lock->lingering.reset();
  --lingering_;
}

void Linger::OnSettled(const OwnerId& owner) {
  if (Cover* const cover = to_.notes.CoverOf(owner); cover != nullptr) to_.covers.OnSettled(*cover);
  to_.releases.OnSettled(owner);
}

}  // namespace distlock::core
