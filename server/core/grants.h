// SPDX-License-Identifier: Apache-2.0
//
// From the news of a grant to a lease. The news comes as the answer to an acquire, with the reply to a command that
// made room, as a notice, or with the reply to a tend; it may be old, and it may be about a grant that nobody here can
// use.
//
// Thread: the shard's.
#pragma once

#include <cstdint>
#include <vector>

#include "core/core_context.h"
#include "core/part.h"
#include "core/records.h"

namespace distlock::core {

class Bundles;
class Claims;
class Leases;
class PendingReleases;
class Queues;
class Sessions;
class Waiters;
class Wants;

class Grants final : public Part {
 public:
  Grants(CoreContext& core, Claims& claims, PendingReleases& releases, Sessions& sessions, Wants& wants, Leases& leases,
         Queues& queues, Waiters& waiters, Bundles& bundles)
      : core_(core),
        claims_(claims),
        releases_(releases),
        sessions_(sessions),
        wants_(wants),
        leases_(leases),
        queues_(queues),
        waiters_(waiters),
        bundles_(bundles) {}

  void Handle(const GrantNotice& in);
  // A command that made room has brought grants to waiters of this broker. `look`: their queue is to be tended as well.
  void HandOffAll(const Op& op, const std::vector<HolderView>& next, bool look);
  // A queue was tended.
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The store may have forgotten any of our places: a tend names only a few, and would find the others one by one. Nor
  // may a waiter learn of a grant there by a tend, which does not ask whether another server gives it away (see
  // lua/README.md, hold-off).
  void RejoinAll();
  // The store has granted a lock to a waiter.
  void Grant(Waiter& waiter, const GrantNews& news);

 private:
  void HandOff(const LockName& name, const OwnerId& owner, const GrantNews& news);
  void OnHolderSeen(const LockName& name, const HolderView& holder, Instant sent);
  void Rejoin(const std::vector<Waiter*>& waiters);
  void GrantDetached(Waiter& waiter, Granted granted, Instant deadline);
  void GrantOnStream(Waiter& waiter, Granted granted, const GrantNews& news);
  Instant BeforeGrant(const Waiter& waiter, uint64_t token) const;

  CoreContext& core_;
  Claims& claims_;
  PendingReleases& releases_;
  Sessions& sessions_;
  Wants& wants_;
  Leases& leases_;
  Queues& queues_;
  Waiters& waiters_;
  Bundles& bundles_;
};

}  // namespace distlock::core
