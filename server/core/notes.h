// SPDX-License-Identifier: Apache-2.0
//
// What the store has yet to be told of locks that this broker has given to another lease of its own: who has it now.
// Until the store has answered, it knows the lock under an earlier owner, so nothing may be asked of it under the new
// one: renewals and releases wait (Contains). Of one lock one command is under way at a time; leases that come and go
// meanwhile are never told of. A command is repeated until the store has answered whether the lock is still ours: it
// names both owners, so it may run twice, and late.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/core_context.h"
#include "core/note_news.h"

namespace distlock::core {

// A grant of a lock, as the store is told of it.
struct NotedGrant {
  OwnerId owner{};
  uint64_t token = 0;
  Duration ttl{};
  std::string info;
  bool covers = false;  // it is a cover: see Covers
};

struct Cover;
struct Lease;

struct Note : Timed {
  Note() : Timed(TimerKind::kNote) {}
  LockName name;
  NotedGrant from;  // who has it, as far as the store has answered
  NotedGrant sent;  // who has it if the command under way has run
  NotedGrant to;    // who has it here
  OpId op = 0;
  Instant retry_at = kNever;
  Instant until{};  // the store has forgotten the lock by itself then
  int attempts = 0;
};

class Notes {
 public:
  Notes(CoreContext& core, NoteNews& news) : core_(core), news_(news) {}

  // `from` had the lock until now. REQUIRES: MayTell of `from`, and no note names `to`.
  void Tell(const LockName& name, const NotedGrant& from, NotedGrant to);
  // Whether `owner` is the last that the store was told of, or is to be, if it was told of this lock at all.
  bool MayTell(const LockName& name, const OwnerId& owner) const;
  // Nobody has the lock any more that `owner` has had: whom the store will know it under once it has answered.
  std::pair<OwnerId, uint64_t> Settle(const LockName& name, const OwnerId& owner, uint64_t token);
  // Tells the store that the lock is not kept when this holder's lease ends. It does not matter whether it arrives:
  // whoever wanted to know asks again. REQUIRES: that it is so, and the owner is not contained.
  void Unmark(const LockName& name, const OwnerId& owner, uint64_t token);
  // Tells the store that this reader's lock is no cover, as Unmark does of what is kept.
  void SpreadAgain(const Lease& lease);
  // Whether a note under way names this owner.
  bool IsTelling(const OwnerId& owner) const { return !by_owner_.empty() && by_owner_.contains(owner); }
  // Whether the store may have a lock of ours under this owner by mistake, or not have it yet.
  bool Contains(const OwnerId& owner) const { return IsTelling(owner) || CoverOf(owner) != nullptr; }
  // Somebody waits until this owner is not contained any more.
  void Hurry(const OwnerId& owner) { news_.OnAwaited(owner); }

  // ---- readers under a cover, of whom the store is told when it ends: see Covers
  void Hide(const OwnerId& owner, Cover& cover) { covered_.emplace(owner, &cover); }
  void Unhide(const OwnerId& owner) { covered_.erase(owner); }
  // Null: it is under no cover.
  Cover* CoverOf(const OwnerId& owner) const {
    if (covered_.empty()) return nullptr;
    const auto found = covered_.find(owner);
    return found == covered_.end() ? nullptr : found->second;
  }
  size_t size() const { return notes_.size(); }

  void OnReply(const Op& op, OpId id, const StoreReply& reply);
  void OnTimer(Note& note);
  void OnStoreUp();

 private:
  void Send(Note& note);
  void Arm(Note& note);
  void MoveTo(Note& note, NotedGrant to);
  void OnNoted(Note& note, Instant sent, uint32_t queue_length);
  void Refuse(Note& note);
  void Leave(const Note& note, const OwnerId& owner);
  void Forget(Note& note);

  CoreContext& core_;
  NoteNews& news_;
  absl::btree_map<uint64_t, std::unique_ptr<Note>> notes_;  // by serial
  absl::flat_hash_map<OwnerId, Note*> by_owner_;            // under each of their three owners
  absl::flat_hash_map<OwnerId, Cover*> covered_;
};

}  // namespace distlock::core
