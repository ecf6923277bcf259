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
#include "core/records.h"
#include "core/tend_news.h"

namespace distlock::core {

class Bundles;
class Claims;
class Leases;
class PendingReleases;
class Queues;
class Sessions;
class Waiters;

// How the news of a grant came.
enum class Arrival : uint8_t { kAnswer, kReply, kNotice, kTend };

// A grant as the news tells it. `deadline` is D: counted from before the store was told.
struct GrantNews {
  uint64_t token = 0;
  StoreTime since;
  Instant made{};     // no later than the store made it
  Instant made_by{};  // no earlier than that
  Duration ttl{};
  Instant deadline{};
  Arrival arrival = Arrival::kAnswer;
};

class Grants final : public TendNews {
 public:
  // The parts that grants call.
  struct Neighbours {
    Sessions& sessions;
    Waiters& waiters;
    Leases& leases;
    Queues& queues;
    Bundles& bundles;
    PendingReleases& releases;
    Claims& claims;
  };
  Grants(CoreContext& core, const Neighbours& to) : core_(core), to_(to) {}

  void Handle(const GrantNotice& in);
  // What a command that made room has brought: grants to waiters of this broker, and whether there is more to do
  // (`look`).
  void HandOffAll(const Op& op, const std::vector<HolderView>& next, bool look);
  // Hands the lock to the holder if it is a waiter of this broker that has a place.
  void OnHolderSeen(const LockName& name, const HolderView& holder, Instant sent) override;
  // Has the waiters take new places in the old order.
  void OnPlacesLost(const std::vector<Waiter*>& waiters) override;
  // The store has granted a lock to a waiter.
  void Grant(Waiter& waiter, const GrantNews& news);

 private:
  void HandOff(const LockName& name, const OwnerId& owner, const GrantNews& news);
  void GrantDetached(Waiter& waiter, Granted granted, Instant deadline);
  void GrantOnStream(Waiter& waiter, Granted granted, const GrantNews& news);
  Instant NoticeDeadline(const Waiter& waiter, uint64_t token, Duration ttl) const;

  CoreContext& core_;
  const Neighbours to_;
};

}  // namespace distlock::core
