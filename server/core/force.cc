// SPDX-License-Identifier: Apache-2.0
//
// Broker: what forced releases ask of its own leases.
#include "core/broker.h"

namespace distlock::core {

std::optional<uint64_t> Broker::TokenOf(const OwnerId& owner) const {
  const auto lease = leases_.find(owner);
  return lease == leases_.end() ? std::nullopt : std::optional(lease->second->token);
}

std::optional<Instant> Broker::FreeAt(const OwnerId& owner) const {
  const auto lease = leases_.find(owner);
  return lease == leases_.end() ? std::nullopt : std::optional(lease->second->free_at);
}

void Broker::ForceLease(const OwnerId& owner, const std::string& reason) {
  Lease& lease = *leases_.at(owner);
  if (lease.bundle != nullptr) return LosePart(lease, "an administrator took it: " + reason);
  lease.lock_delay = Duration::zero();
  if (lease.ending) return;  // it is freed in its time
  NoteEnd(lease, FactKind::kLost, LostReason::kForced, reason);
  TellHolder(lease, Lost{lease.name, lease.owner, lease.token, LostReason::kForced, reason});
  // Its client lives, and believes until it hears of this.
  lease.on_disconnect = OnDisconnect::kSafe;
  EndLease(lease);
}

bool Broker::IsWaiting(const OwnerId& owner) const {
  if (waiters_.contains(owner)) return true;
  for (const auto& [serial, bundle] : bundles_) {
    for (const Bundle::Part& part : bundle->parts) {
      if (part.spec.owner == owner) return true;
    }
  }
  return false;
}

}  // namespace distlock::core
