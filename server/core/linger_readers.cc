// SPDX-License-Identifier: Apache-2.0
//
// Linger: readers of one lock, when they share a cover, and when no longer.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/leases.h"
#include "core/limits.h"
#include "core/linger.h"
#include "core/notes.h"
#include "core/pending_releases.h"
#include "core/sessions.h"

namespace distlock::core {

// ---- Acquires ----

// Until when the waiter need not ask the store; the epoch: it must.
Instant Linger::Await(Waiter& waiter) {
  if (!is_on() || !core_.config.covers || !core_.store_up || !Suits(waiter.spec, Mode::kShared)) return {};
  Lock* const lock = Find(waiter.spec.name);
  if (lock == nullptr || lock->joiners >= kMostUnderCover || to_.releases.Contains(waiter.spec.owner)) return {};
  const bool is_asked = lock->attempt != OwnerId{};
  // Whoever cannot join would end the cover at once.
  if (lock->waiters != lock->joiners + (is_asked ? 2 : 1) || !IsOfSession(waiter, to_.sessions)) return {};
  if (is_asked ? lock->attempt_ttl != waiter.spec.ttl : !MayGather(*lock, waiter.spec.name)) return {};
  ++lock->joiners;
  lock->awaiting.push_back(waiter.spec.owner);
  waiter.awaits = true;
  return is_asked ? core_.now + CoreContext::AttemptTimeout(waiter.spec.ttl) : lock->gather_until;
}

// While the store has readers of ours, a cover cannot begin. Where they come and go quickly, the next ones need only be
// held back for a moment.
bool Linger::MayGather(Lock& lock, const LockName& name) {
  if (core_.now < lock.pause_until || to_.covers.Find(name) != nullptr || !HasReaders(lock)) return false;
  if (lock.joiners == 0) lock.gather_until = core_.now + core_.config.linger / kGatherShare;
  return core_.now < lock.gather_until;
}

bool Linger::HasReaders(Lock& lock) const {
  if (lock.readers.size() > kMostUnderCover) return true;
  ForgetReaders(lock);
  return !lock.readers.empty();
}

void Linger::ForgetReaders(Lock& lock) const {
  absl::erase_if(lock.readers,
                 [this](const OwnerId& owner) { return !to_.leases.Contains(owner) && !to_.releases.Contains(owner); });
}

void Linger::StopAwaiting(Waiter& waiter) {
  waiter.awaits = false;
  Lock& lock = *Find(waiter.spec.name);
  if (--lock.joiners == 0) lock.awaiting.clear();
  if (lock.gather_until == Instant{} || core_.now < lock.gather_until) return;
  lock.gather_until = {};
  PauseCovers(lock);
}

// They would have to share the lock with others. Where that is so for long, it is tried less often.
void Linger::PauseCovers(Lock& lock) const {
  const Duration pause = core_.config.linger_pause * (int64_t{1} << std::min<uint32_t>(lock.failures++, 4));
  lock.pause_until = std::max(lock.pause_until, core_.now + pause);
}

std::vector<OwnerId> Linger::EndGather(const LockName& name) {
  Lock* const lock = Find(name);
  if (lock == nullptr || std::exchange(lock->gather_until, {}) == Instant{}) return {};
  return std::exchange(lock->awaiting, {});
}

bool Linger::IsGathered(const LockName& name, const OwnerId& owner) {
  Lock* const lock = is_on() ? Find(name) : nullptr;
  if (lock == nullptr || lock->readers.erase(owner) == 0 || lock->gather_until == Instant{}) return false;
  if (HasReaders(*lock)) return false;
  lock->gather_until = {};
  return true;
}

const std::vector<OwnerId>& Linger::Awaiting(const LockName& name) const {
  static const std::vector<OwnerId> kNobody;
  const auto found = locks_.find(name);
  return found == locks_.end() ? kNobody : found->second.awaiting;
}

std::vector<OwnerId> Linger::TakeAwaiting(const LockName& name, const OwnerId& owner) {
  Lock* const lock = Find(name);
  if (lock == nullptr || (lock->attempt != owner && lock->attempt != OwnerId{})) return {};
  lock->attempt = {};
  // Others have it: there is no need to ask so soon again.
  if (to_.covers.Find(name) == nullptr) PauseCovers(*lock);
  return std::exchange(lock->awaiting, {});
}

// The store keeps everybody else out, so it must be told if anybody else is to have the lock.
void Linger::OnCover(Lock& lock, const Lease& lease, const Waiter& waiter, const GrantNews& news) {
  Cover& cover = to_.covers.Begin(lease, waiter.spec.info, news);
  lock.failures = 0;
  const bool recalled = std::exchange(lock.early, false);
  const bool is_wanted = recalled || lock.waiters > lock.joiners + (waiter.counted ? 1 : 0);
  if (is_wanted || waiter.attempts > 1 || core_.draining || !core_.store_up) {
    to_.covers.Settle(cover);
  }
}

// One that the store knows.
void Linger::OnReader(const Lease& lease) {
  if (to_.notes.CoverOf(lease.owner) != nullptr) return;
  Lock& lock = LockOf(lease.name);
  lock.readers.insert(lease.owner);
  if (lock.readers.size() < lock.forget_at) return;
  // Not all of them have been released.
  ForgetReaders(lock);
  lock.forget_at = 2 * lock.readers.size() + kMostUnderCover;
}

void Linger::OnCoverReply(const Op& op, OpId id, const StoreReply& reply) {
  const auto* const done = std::get_if<NoteDone>(&reply.outcome);
  const Cover* const cover = to_.covers.Find(op.name);
  if (done != nullptr && done->is_noted && cover != nullptr && cover->serial == op.waiter) {
    Lock& lock = LockOf(op.name);
    for (const auto& [token, reader] : cover->readers) lock.readers.insert(reader.owner);
    lock.spread = cover->owner;
    lock.spread_token = cover->token;
  }
  to_.covers.OnReply(op, id, reply);
}

// A store that has lost the spread, by a failover, shows the cover again, and would wait for its one reader as for a
// writer. The others of the cover are lost to it. Whoever asked for this asks again, so it may be lost, too.
bool Linger::SpreadAgain(const Lock& lock) {
  const Lease* const lease = to_.leases.Find(lock.spread);
  if (lease == nullptr || lease->token != lock.spread_token || !core_.store_up || to_.notes.Contains(lock.spread)) {
    return false;
  }
  to_.notes.SpreadAgain(*lease);
  return true;
}

// ---- Ends ----

bool Linger::LeaveCover(Cover& cover, Lease& lease, const Release& in) {
  if (lease.at_risk || (lease.reentry != nullptr && !lease.reentry->others.empty())) return false;
  const Released released{ReleaseOutcome::kReleased, lease.name, lease.owner, lease.token};
  if (!to_.covers.Leave(cover, lease)) return false;
  core_.Tell({in.session, in.request}, released);
  return true;
}

// A reader that stays for long gains nothing from a cover.
void Linger::OnTimer(Cover& cover) {
  const LockName name = cover.name;
  if (to_.covers.OnTimer(cover)) PauseCovers(LockOf(name));
}

void Linger::OnAwaited(const OwnerId& owner) {
  if (Cover* const cover = to_.notes.CoverOf(owner); cover != nullptr) to_.covers.Settle(*cover);
}

}  // namespace distlock::core
