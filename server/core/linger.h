// SPDX-License-Identifier: Apache-2.0
//
// Locks that this broker keeps for a moment after their release, and gives to its next lease without asking the store.
// The store has such a lock under an owner of ours all the time, so nobody else is granted it: one lease after the
// other has it here, and none believes for longer than until D, which only the store's answers move on. Whoever else
// wants the lock has the store recall it; then it is given back. README.md says why this is safe. Of SHARED locks it
// decides when they are covered, and when no longer; the rest is done by Covers.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/core_context.h"
#include "core/covers.h"
#include "core/limits.h"
#include "core/lock_name.h"
#include "core/note_news.h"
#include "core/records.h"

namespace distlock::core {

class Grants;
class Leases;
class Notes;
class PendingReleases;
class Sessions;
struct GrantNews;

// A lock whose lease was released, and which the store still has under that lease's owner, or will.
struct LingeringLock : Timed {
  LingeringLock() : Timed(TimerKind::kLinger) {}
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  Duration ttl{};
  Instant deadline{};  // D of the lease, or later
  StoreTime base;      // as of Lease
  Instant base_at{};
};

class Linger final : public NoteNews {
 public:
  // The parts that it calls.
  struct Neighbours {
    Sessions& sessions;
    Leases& leases;
    Grants& grants;
    Notes& notes;
    PendingReleases& releases;
    Covers& covers;
  };
  Linger(CoreContext& core, const Neighbours& to) : core_(core), to_(to) {}

  // False: nothing of this happens, and nothing else need be called.
  bool is_on() const;

  // ---- acquires
  // Gives the waiter a lock that lingers, or that is covered. False: there is none for it.
  bool Regrant(Waiter& waiter);
  // Until when the waiter, a reader, need not ask the store: before that somebody lets it in, or has it ask; the epoch:
  // it must ask now.
  Instant Await(Waiter& waiter);
  void StopAwaiting(Waiter& waiter);
  // Somebody who cannot join is about to ask: who waited for readers to leave, and must ask first.
  std::vector<OwnerId> EndGather(const LockName& name);
  // What `owner` had is released. Whether all readers have left whom others waited for: the first of these is to ask.
  bool IsGathered(const LockName& name, const OwnerId& owner);
  // Who awaits an attempt, or did.
  const std::vector<OwnerId>& Awaiting(const LockName& name) const;
  // An attempt of `owner` has been answered: who awaited that.
  std::vector<OwnerId> TakeAwaiting(const LockName& name, const OwnerId& owner);
  // One more waits for the lock. If that lingers, it is given back now, and the acquire sent next follows.
  void OnWaiter(Waiter& waiter);
  void OnWaiterGone(const Waiter& waiter);
  // Whether the lock may be kept when the waiter has had it; of a reader: whether others may join it. Its first attempt
  // is about to be sent.
  bool MayLinger(const Waiter& waiter);
  // The waiter, which is about to be forgotten, has become a lease.
  void OnGranted(Lease& lease, const Waiter& waiter, const GrantNews& news);

  // ---- ends
  // Keeps the lock of a lease that its session releases, and answers it. False: it must be given back.
  bool Keep(const Release& in);
  void Handle(const RecallNotice& in) { Recall(in.name); }
  void Handle(const SettleNotice& in);
  void Handle(const BeforeLook& in);
  // A caller names the owner of a lease that was released: if that lingers, it is given back first. If it is under a
  // cover, that is spread.
  void EndOf(const LockName& name, const OwnerId& owner);
  // The store is about to be asked for the lock: if it lingers, it is given back first, and its cover is spread.
  void EndFor(const LockName& name);
  void EndAll();
  // What is known of the store, or of its clock, is not true any more: not even present leases' locks are kept.
  void EndAllForGood();
  void OnTimer(LingeringLock& lingering);
  void OnTimer(Cover& cover);
  size_t size() const { return lingering_ + to_.covers.size(); }

  void OnCoverReply(const Op& op, OpId id, const StoreReply& reply);
  void OnNoted(const LockName& name, const OwnerId& owner, Instant sent, Duration ttl, uint32_t queue_length,
               bool is_known) override;
  void OnNotOurs(const LockName& name, const OwnerId& owner) override;
  void OnAwaited(const OwnerId& owner) override;
  void OnSettled(const OwnerId& owner) override;

 private:
  // What is known of a lock.
  struct Lock {
    uint32_t waiters = 0;   // here
    uint32_t grants = 0;    // in a row that were ours at once, before anybody else wanted it
    uint32_t recalls = 0;   // in a row
    uint32_t failures = 0;  // in a row, to let readers share a cover
    bool wanted = false;    // its present lease is given back when it ends
    bool early = false;     // so will be the next one: its recall came before the news of its grant
    OwnerId holder{};       // the last lease that may be kept
    Instant pause_until{};
    Instant used{};
    OwnerId attempt{};  // a reader that has asked for a cover; zeros: none has
    OwnerId orphan{};   // one that had, and went away before the answer
    OwnerId spread{};   // the last cover was spread under this owner and token
    uint64_t spread_token = 0;
    Duration attempt_ttl{};
    std::vector<OwnerId> awaiting;         // those who wait for its answer, or did
    uint32_t joiners = 0;                  // those who do
    absl::flat_hash_set<OwnerId> readers;  // of ours, whom the store knows, or did
    size_t forget_at = kMostUnderCover;    // so many of them
    Instant gather_until{};                // until they have left; the epoch: nobody waits for that
    std::unique_ptr<LingeringLock> lingering;
  };

  static bool Suits(const Acquire& spec, Mode mode);
  Lock& LockOf(const LockName& name);
  Lock* Find(const LockName& name);
  void Recall(const LockName& name);
  void Pause(Lock& lock);
  void PauseCovers(Lock& lock) const;
  bool SpreadAgain(const Lock& lock);
  bool LeaveCover(Cover& cover, Lease& lease, const Release& in);
  bool RegrantKept(Waiter& waiter, Lock& lock);
  static bool IsOfSession(const Waiter& waiter, const Sessions& sessions);
  bool MayGather(Lock& lock, const LockName& name);
  bool HasReaders(Lock& lock) const;
  void ForgetReaders(Lock& lock) const;
  void OnReader(const Lease& lease);
  void OnCover(Lock& lock, const Lease& lease, const Waiter& waiter, const GrantNews& news);
  void End(Lock& lock, LingerOutcome outcome = LingerOutcome::kGivenBack);
  void Note(const LockName& name, LingerOutcome outcome);
  void ForgetIdle();

  CoreContext& core_;
  const Neighbours to_;
  absl::flat_hash_map<LockName, Lock> locks_;
  size_t lingering_ = 0;
  size_t forget_at_ = 0;  // so many locks are known
};

}  // namespace distlock::core
