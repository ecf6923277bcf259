// SPDX-License-Identifier: Apache-2.0
//
// The lock table: a leader changes what others see of it. Its session adopts the lease anew, under another spec: the
// same move that carries leases to another broker, to where the lease is already. An outcome that is not known is asked
// for again, as every move is.
#include <utility>

#include "lock_table.h"

namespace distlock::internal {

void LockTable::Proclaim(const LeasePtr& lease, std::shared_ptr<const Spec> spec, ChangeCallback callback,
                         int64_t now_ns, Effects& fx) {
  const auto refuse = [&](RefusalReason reason, std::string why) {
    fx.changed.emplace_back(std::move(callback), Refusal{.reason = reason, .message = std::move(why)});
  };
  if (lease->phase != Lease::Phase::kHeld || (lease->link != nullptr && lease->link->leaving)) {
    return refuse(RefusalReason::kNotHolder, "the lock has ended");
  }
  if (spec->problem) {
    fx.changed.emplace_back(std::move(callback), *spec->problem);
    return;
  }
  if (spec->wire.reentrant()) {
    return refuse(RefusalReason::kNotSupported, "the lock is reentrant: what is shown of its holds cannot change");
  }
  if (lease->stays || (lease->link != nullptr && !lease->link->adopts)) {
    return refuse(RefusalReason::kNotSupported, "the broker is too old to change what is shown of a lock");
  }
  if (lease->proclamation == nullptr) lease->proclamation = std::make_unique<Proclamation>();
  Proclamation& proclamation = *lease->proclamation;
  proclamation.asked = std::move(spec);
  proclamation.callbacks.push_back(std::move(callback));
  Wake(moves_at_ns_ = now_ns);
}

// What the next adoption is to show.
const std::shared_ptr<const Spec>& LockTable::NextSpec(const Lease& lease) {
  const Proclamation* const proclamation = lease.proclamation.get();
  if (proclamation == nullptr) return lease.spec;
  if (proclamation->asked != nullptr) return proclamation->asked;
  return proclamation->shown != nullptr ? proclamation->shown : lease.spec;
}

// The lease was adopted, and is shown so.
void LockTable::OnShown(Lease& lease, const std::shared_ptr<const Spec>& spec, int64_t now_ns, Effects& fx) {
  Proclamation* const proclamation = lease.proclamation.get();
  if (proclamation == nullptr) return;
  proclamation->shown = spec;
  if (proclamation->asked == nullptr) return;
  if (proclamation->asked != spec) return Wake(moves_at_ns_ = now_ns);  // it was asked for after that adoption
  proclamation->asked = nullptr;
  for (auto& callback : proclamation->callbacks) fx.changed.emplace_back(std::move(callback), std::nullopt);
  proclamation->callbacks.clear();
}

// False: nobody has asked for a change that is not shown yet.
bool LockTable::OnNotShown(Lease& lease, const Refusal& refusal, Effects& fx) {
  Proclamation* const proclamation = lease.proclamation.get();
  if (proclamation == nullptr || proclamation->asked == nullptr) return false;
  proclamation->asked = nullptr;
  lease.move = nullptr;
  for (auto& callback : proclamation->callbacks) fx.changed.emplace_back(std::move(callback), refusal);
  proclamation->callbacks.clear();
  return true;
}

}  // namespace distlock::internal
