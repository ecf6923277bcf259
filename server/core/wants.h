// SPDX-License-Identifier: Apache-2.0
//
// Tells holders that somebody waits for what they have, or was just refused it. Only of leases that asked for it
// (Acquire::tell_wanted); of others nothing is kept, and nothing is sent.
//
// A lease of this broker is told here. For a lease of another broker, whose number its holder shows, the store tells
// that broker. No answer shows who waits behind a lease that was handed on or taken over: the store is asked once how
// many there are. All of it is a hint: an answer, a command or a notice may be lost, and nothing is repeated before the
// next waiter, one try or tend shows the holder again. A grant is told of at most once in kWantedPace.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "core/core_context.h"
#include "core/part.h"
#include "core/records.h"

namespace distlock::core {

class Claims;
class Sessions;

// A grant that was told of less than kWantedPace ago.
struct WantedGrant : PartRecord {
  explicit WantedGrant(Part& of) : PartRecord(of) {}
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;
  uint64_t through = 0;  // as in StoreWanted
  bool again = false;    // somebody has wanted it since
};

class Wants final : public PartOf<WantedGrant> {
 public:
  Wants(CoreContext& core, Claims& claims, Sessions& sessions) : core_(core), claims_(claims), sessions_(sessions) {}

  // ---- somebody wants a lock
  // An answer shows a waiter, or one try that is refused, who has it.
  void OnHolders(const LockName& name, const std::vector<HolderView>& holders);
  // One try is refused, and the answer does not show who has it: leases of this broker are told.
  void OnMismatch(const LockName& name);
  // Another broker's caller wants it.
  void Handle(const WantedNotice& in);

  // ---- leases of this broker that asked for it. Nothing happens for others.
  void OnBegin(const Lease& lease);
  void OnEnd(const Lease& lease);
  // Its client has been told of the grant, and others may have begun to wait for the lock unseen.
  void AskWhoWaits(const Lease& lease);

  void OnTimer(WantedGrant& grant) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  size_t Check() const override;

 private:
  const Lease* LeaseOf(const OwnerId& owner, uint64_t token) const;
  void Tell(const LockName& name, const OwnerId& owner, uint64_t token, uint64_t through);
  void TellNow(WantedGrant& grant);
  void Send(const LockName& name, const OwnerId& owner, uint64_t token, uint64_t through);

  CoreContext& core_;
  Claims& claims_;
  Sessions& sessions_;
  absl::btree_set<std::pair<LockName, OwnerId>> leases_;
  absl::btree_map<std::pair<OwnerId, uint64_t>, std::unique_ptr<WantedGrant>> told_;  // by owner and token
};

}  // namespace distlock::core
