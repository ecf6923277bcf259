// SPDX-License-Identifier: Apache-2.0
//
// Broker: Convert, which makes an EXCLUSIVE lease SHARED. The store knows in which mode a lease is held; here it is asked, and
// asked again as long as the outcome is not known.
#include <algorithm>

#include "core/broker.h"
#include "core/limits.h"

namespace distlock::core {

// What is on its way back to the store is its caller's no more.
bool Broker::IsGivenBack(const OwnerId& owner, uint64_t token) const {
  if (const auto lease = leases_.find(owner); lease != leases_.end() && lease->second->ending) {
    return token == 0 || token == lease->second->token;
  }
  return releases_.IsReleasing(owner, token);
}

void Broker::Handle(Convert& in) {
  if (in.acquire != 0) {
    const auto session = sessions_.find(in.session);
    if (session == sessions_.end()) return;
    const auto lease = session->second->leases.find(in.acquire);
    if (lease == session->second->leases.end()) {
      return downgrades_.Refuse(in, RefusalReason::kNotHolder, "this session holds nothing under that id");
    }
    in.name = lease->second->name;
    in.owner = lease->second->owner;
    in.token = lease->second->token;
  }
  if (IsGivenBack(in.owner, in.token)) {
    return downgrades_.Refuse(in, RefusalReason::kNotHolder, "it is being given back");
  }
  if (const auto lease = leases_.find(in.owner); lease != leases_.end() && lease->second->reentry != nullptr) {
    Reentry& reentry = *lease->second->reentry;
    if (!reentry.others.empty()) {
      return downgrades_.Refuse(in, RefusalReason::kNotSupported,
                                "it was taken " + std::to_string(reentry.others.size() + 1) +
                                    " times, and all who have it count on its mode; release it but once");
    }
    // From now on, whenever the store does it. Permits it refuses, and they are held as before.
    if (reentry.want.mode == Mode::kExclusive) reentry.want.mode = Mode::kShared;
  }
  downgrades_.Begin(in);
}

}  // namespace distlock::core
