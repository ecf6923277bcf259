// SPDX-License-Identifier: Apache-2.0
//
// Readers of one lock behind one hold of this broker. The store takes that for an EXCLUSIVE hold, so that it lets in
// nobody else; it is in the store under one of the readers, the named one, or one that has left. Further readers join
// and leave here, without the store. As soon as anything else is to be done with the lock, or with one of its leases,
// the cover is spread: each reader that is present becomes a holder of its own in the store. README.md says why this is
// safe.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/core_context.h"
#include "core/lock_name.h"
#include "core/records.h"

namespace distlock::core {

class Grants;
class Leases;
class Notes;
class PendingReleases;
struct GrantNews;

struct Cover : Timed {
  Cover() : Timed(TimerKind::kCover) {}
  struct Reader {
    OwnerId owner{};
    std::string info;
    Instant joined{};
  };
  LockName name;
  OwnerId owner{};  // the store has it under this one, or will when the note under way has run
  uint64_t token = 0;
  Duration ttl{};      // of all its leases
  Instant deadline{};  // D of those who join
  StoreTime base;      // as of Lease
  Instant base_at{};
  uint64_t given = 0;                         // the greatest token so far
  uint64_t reserved = 0;                      // the store gives none up to this
  absl::btree_map<uint64_t, Reader> readers;  // who is present, by token
  Instant named_left = kNever;                // when the named reader left
  Instant idle_since{};                       // when the last one left, if nobody is present
  bool spreading = false;                     // nobody joins or leaves any more
  OpId op = 0;                                // that tells the store
  Instant first_sent{};                       // the ttls in the store began no earlier
  Instant retry_at = kNever;
  Instant until = kNever;  // the store has forgotten it by itself then
  int attempts = 0;
};

class Covers {
 public:
  // The parts that it calls.
  struct Neighbours {
    Leases& leases;
    Grants& grants;
    Notes& notes;
    PendingReleases& releases;
  };
  Covers(CoreContext& core, const Neighbours& to) : core_(core), to_(to) {}

  // The lease, with that info, is the first one under a cover.
  Cover& Begin(const Lease& lease, std::string info, const GrantNews& news);
  // Grants the waiter the lock beside those who have it. False: it cannot join.
  bool Join(Cover& cover, Waiter& waiter);
  // Ends a lease that its session releases. False: the cover is being spread.
  bool Leave(Cover& cover, Lease& lease);
  // Has the store know all who are present; or gives the lock back, if nobody is.
  void Settle(Cover& cover);
  // True: a reader stays for so long that the cover is spread.
  bool OnTimer(Cover& cover);

  // Null: there is none.
  Cover* Find(const LockName& name) const;
  // By name.
  std::vector<Cover*> All() const;
  size_t size() const { return covers_.size(); }

  void OnReply(const Op& op, OpId id, const StoreReply& reply);
  void OnStoreUp();
  // As of NoteNews, of the owner that the store has it under from now on.
  void OnNoted(Cover& cover, Instant sent);
  void OnNotOurs(Cover& cover);
  void OnSettled(Cover& cover);

 private:
  uint64_t NextToken(const Cover& cover) const;
  bool NamedIsWell(const Cover& cover) const;
  Instant NextLook(const Cover& cover) const;
  Instant IdleEnd(const Cover& cover) const;
  void Rename(Cover& cover);
  void GiveBack(Cover& cover);
  void Send(Cover& cover);
  void OnSpread(Cover& cover);
  std::vector<OwnerId> Unhide(const Cover& cover);
  void Forget(Cover& cover);

  CoreContext& core_;
  const Neighbours to_;
  absl::flat_hash_map<LockName, std::unique_ptr<Cover>> covers_;
};

}  // namespace distlock::core
