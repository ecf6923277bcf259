// SPDX-License-Identifier: Apache-2.0
//
// Claims: what the store has, or may have, under an owner id. Each owner has one record here, whatever its state: it
// asks, or has a place in the queue (Waiter), has the lock (Lease), is being given back (PendingRelease), or is left to
// its ttl. The parts that act on these records own their rules; this table owns the records, and says which may stand
// beside each other.
//
//   none ─ Ask ─> asks ─ Hold ─> holds ─┬─ GiveBack ──> is given back ─> none
//                                       └─ LeaveToTtl ─> left ────────── none, when its time has passed
//
// A request may be repeated: its owner then asks while its former grant is given back or left to its ttl. And a grant
// may come by another path: it is given back while its owner still asks. So a claim has no single state: Check() says
// which records exclude each other.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/core_context.h"
#include "core/records.h"

namespace distlock::core {

struct Claim {
  std::unique_ptr<Waiter> waiter;           // null: it does not ask
  std::unique_ptr<Lease> lease;             // null: no lease of it is renewed here
  std::unique_ptr<PendingRelease> release;  // null: nothing of it is being given back
  // A grant that this broker knows and does not renew is of a detached lease, or of one that is left to its ttl. The
  // store may keep it until `left_until`; until then a second message about it is no reason to release it. Its client
  // may believe in it until `promised_until`.
  Instant left_until{};
  Instant promised_until{};
  uint32_t bundles = 0;    // bundles that take, or have taken, a lock for it
  uint32_t adoptions = 0;  // adopt calls under way, whose lease the store may have given it already
};

class Claims {
 public:
  explicit Claims(CoreContext& core) : core_(core) {}

  // Whether a record accounts for what the store may have of the owner. A repeatable owner's may be at another broker.
  bool IsKnown(const OwnerId& owner);
  // Whether a request or release of the owner is under way here, or its client may believe in a lock that this broker
  // does not renew.
  bool MayChange(const OwnerId& owner) const;
  // All records of one kind: `of` is a member of Claim.
  template <typename Record, typename Look>
  void ForEach(std::unique_ptr<Record> Claim::* of, Look look) const {
    for (const auto& [owner, claim] : claims_) {
      if ((*claim).*of != nullptr) look(*((*claim).*of));
    }
  }
  // Whether a request under this owner is answered by what is here already.
  bool IsInUse(const OwnerId& owner) const { return WaiterOf(owner) != nullptr || LeaseOf(owner) != nullptr; }

  // ---- it asks. REQUIRES: it neither asks nor holds.
  Waiter& Ask(std::unique_ptr<Waiter> waiter);
  void EndAsking(OwnerId owner);
  Waiter* WaiterOf(const OwnerId& owner) const;  // null: it does not ask
  // The waiter of another try of the owner's request; null: there is none.
  Waiter* OtherTry(const OwnerId& owner) const;
  size_t waiters() const { return waiters_; }

  // ---- it holds. REQUIRES: it has no lease. The caller ends what it asks before this Step ends.
  Lease& Hold(std::unique_ptr<Lease> lease);
  void EndLease(OwnerId owner);
  Lease* LeaseOf(const OwnerId& owner) const;  // null: it has none here
  size_t leases() const { return leases_; }

  // ---- it is given back. REQUIRES: nothing of it is being given back.
  PendingRelease& GiveBack(std::unique_ptr<PendingRelease> release);
  void EndRelease(OwnerId owner);
  PendingRelease* ReleaseOf(const OwnerId& owner) const;  // null: nothing of it is being given back
  // Whether its grant with this token (0: any) is on its way back to the store.
  bool IsReleasing(const OwnerId& owner, uint64_t token) const;
  size_t releases() const { return releases_; }

  // ---- it is left to its ttl. Replaces what is known of it.
  void LeaveToTtl(const OwnerId& owner, Instant until, Instant promised_until = {});
  void ForgetLeft(const OwnerId& owner);
  bool IsLeft(const OwnerId& owner);  // and may last
  size_t left();                      // how many may last

  // ---- owners that a bundle or an adoption is to give a lock
  void AddBundle(const OwnerId& owner) { ++At(owner).bundles; }
  void RemoveBundle(const OwnerId& owner);
  void AddAdoption(const OwnerId& owner) { ++At(owner).adoptions; }
  void RemoveAdoption(const OwnerId& owner);

  // Crashes if a record is in two states that exclude each other, or the orders differ from it.
  void Check() const;

 private:
  Claim& At(const OwnerId& owner);
  const Claim* Find(const OwnerId& owner) const;
  void DropIfEmpty(const OwnerId& owner);
  void DropOld();

  CoreContext& core_;
  absl::flat_hash_map<OwnerId, std::unique_ptr<Claim>> claims_;
  absl::btree_map<OwnerId, Waiter*> tries_;  // of requests that ask: those of one request stand beside each other
  absl::btree_set<std::pair<Instant, OwnerId>> by_end_;  // those that are left to their ttl
  size_t waiters_ = 0;
  size_t leases_ = 0;
  size_t releases_ = 0;
};

}  // namespace distlock::core
