// SPDX-License-Identifier: Apache-2.0
#include "core/detached_reentry.h"

#include <algorithm>
#include <string>

#include "core/limits.h"

namespace distlock::core {
namespace {

const HolderView* HolderOf(const LockView& view, const DetachedLease& lease) {
  const auto found = std::find_if(view.holders.begin(), view.holders.end(), [&](const HolderView& holder) {
    return holder.owner == lease.owner && holder.token == lease.token;
  });
  return found == view.holders.end() ? nullptr : &*found;
}

const char* NameOf(Mode mode) {
  return mode == Mode::kExclusive ? "EXCLUSIVE" : mode == Mode::kShared ? "SHARED" : "PERMIT";
}

// How long the store keeps the lease at least, by a clock that runs slower than the store's.
Duration ValidFor(const HolderView& holder, uint32_t clock_drift_ppm) {
  const Duration left = std::min(holder.time_left - holder.lock_delay, holder.ttl);
  const Duration drift = left / 1'000'000 * (2 * static_cast<int64_t>(clock_drift_ppm));
  return std::max<Duration>(left - drift - kMarginFloor, Duration::zero());
}

}  // namespace

bool IsHeld(const LockView& view, const DetachedLease& lease) { return HolderOf(view, lease) != nullptr; }

std::variant<Granted, Refused> TakeDetachedAgain(const LockView& view, const DetachedLease& lease, const Want& wants,
                                                 const std::function<Want(const HolderView&)>& want_of,
                                                 uint32_t clock_drift_ppm) {
  const HolderView* const holder = HolderOf(view, lease);
  if (holder == nullptr) {
    if (view.holder_count <= view.holders.size()) {
      return Refused{.reason = RefusalReason::kNotHolder, .cause = {}, .holders = {}};
    }
    return Refused{.reason = RefusalReason::kQuotaExceeded,
                   .cause = "it has " + std::to_string(view.holder_count) + " holders, and only the first " +
                            std::to_string(view.holders.size()) + " of them can take it again",
                   .holders = {}};
  }
  const Want has = want_of(*holder);
  if (has.mode != wants.mode || (wants.mode == Mode::kPermit && has.permits != wants.permits)) {
    return Refused{
        .reason = RefusalReason::kNotSupported,
        .cause = std::string("it is held ") + NameOf(has.mode) + "; take it again as it is held, or release it first",
        .holders = {}};
  }
  return Granted{.name = view.name,
                 .mode = has.mode,
                 .owner = lease.owner,
                 .token = lease.token,
                 .valid_for = ValidFor(*holder, clock_drift_ppm),
                 .ttl = lease.ttl,
                 .hold_count = lease.hold_count + 1};
}

}  // namespace distlock::core
