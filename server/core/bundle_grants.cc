// SPDX-License-Identifier: Apache-2.0
//
// Bundles: from the grant of a part to the grant of all.
#include <algorithm>
#include <utility>

#include "core/bundles.h"
#include "core/grants.h"
#include "core/leases.h"
#include "core/limits.h"
#include "core/waiters.h"

namespace distlock::core {

// Keeps a lease that is renewed here and told to no caller until all parts are there. False: its owner has a lease
// already.
bool Bundles::KeepPart(Bundle& bundle, size_t part, const GrantNews& news) {
  Bundle::Item& kept = bundle.parts[part];
  if (claims_.LeaseOf(kept.spec.owner) != nullptr) return false;
  kept.token = news.token;
  kept.since = news.since;
  kept.made = news.made;
  kept.made_by = news.made_by;
  kept.taken = true;
  Lease& lease = leases_.Keep(kept.spec, news, bundle.may_run_until);
  lease.bundle = &bundle;
  leases_.Arm(lease);
  return true;
}

void Bundles::GrantPart(Waiter& waiter, const GrantNews& news) {
  Bundle& bundle = *waiter.bundle;
  const Instant may_run_until = waiters_.LatestRun(waiter);
  waiter.bundle = nullptr;
  waiters_.Forget(waiter);
  if (!KeepPart(bundle, bundle.next, news)) return RefuseIdInUse(bundle);
  Lease& lease = *claims_.LeaseOf(bundle.parts[bundle.next].spec.owner);
  lease.may_run_until = std::max(lease.may_run_until, may_run_until);
  if (++bundle.next < bundle.parts.size()) return AskForNext(bundle);
  bundle.next = 0;
  GrantAll(bundle);
}

// How long all parts have been granted. For a stream, that begins now. A detached request may be the repeat of one that
// was granted through another broker: its max_hold counts from when the store granted the last part, and each part's
// lease id says so.
Duration Bundles::HeldFor(Bundle& bundle) const {
  if (!bundle.detached) return Duration::zero();
  const Bundle::Item& last = *std::ranges::max_element(bundle.parts, {}, &Bundle::Item::made);
  const StoreTime since = last.since;
  Duration held = core_.now - last.made;
  held += core_.Drift(held);
  for (Bundle::Item& part : bundle.parts) part.since = since;
  return std::max(held, Duration::zero());
}

// The request was granted before, and its max_hold ends that grant: releases what is left of it in the store as soon as
// nobody can have been promised it for longer, and asks anew.
void Bundles::TakeAnew(Bundle& bundle) {
  const Instant made_by = std::ranges::max(bundle.parts, {}, &Bundle::Item::made_by).made_by;
  const Duration max_hold =
      std::ranges::max(bundle.parts, {}, [](const Bundle::Item& part) { return part.spec.max_hold; }).spec.max_hold;
  const Duration promised = std::max(made_by + max_hold - core_.now, Duration::zero());
  for (Bundle::Item& part : bundle.parts) {
    Lease& lease = *claims_.LeaseOf(part.spec.owner);
    part.taken = false;
    leases_.ReleaseLater(lease, promised, lease.lock_delay);
  }
  AskForNext(bundle);
}

void Bundles::GrantAll(Bundle& bundle) {
  const Duration held = HeldFor(bundle);
  for (const Bundle::Item& part : bundle.parts) {
    if (part.spec.max_hold > Duration::zero() && part.spec.max_hold - held <= kMarginFloor) return TakeAnew(bundle);
  }
  for (const Bundle::Item& part : bundle.parts) {
    Lease& lease = *claims_.LeaseOf(part.spec.owner);
    lease.bundle = nullptr;
    if (part.spec.max_hold > Duration::zero()) lease.hold_until = core_.now - held + part.spec.max_hold;
    lease.granted = core_.now;
    Granted granted{.name = lease.name,
                    .mode = part.spec.want.mode,
                    .owner = lease.owner,
                    .token = part.token,
                    .since = part.since,
                    .ttl = lease.ttl,
                    .replicas = core_.config.store.replicas};
    Duration waited{};
    for (const Caller& caller : bundle.callers) {
      const Listener listener{caller.listener.session, part.spec.request};
      waited = core_.now - caller.arrived;
      granted.waited = core_.Shortened(waited);
      if (bundle.detached) {
        granted.valid_for = core_.Shortened(BelieveUntil(lease) - core_.now);
        core_.Tell(listener, granted);
      } else {
        lease.listener = listener;
        sessions_.Give(*sessions_.Find(listener.session), listener.request, lease, granted);
      }
    }
    core_.Note({.kind = FactKind::kGranted, .value = waited, .name = lease.name});
    if (bundle.detached) {
      claims_.LeaveToTtl(lease.owner, core_.now + lease.ttl);
      leases_.Forget(lease);
    } else {
      leases_.Arm(lease);
    }
  }
  for (Bundle::Item& part : bundle.parts) part.taken = false;
  bundle.may_run_until = {};
  End(bundle);
}

}  // namespace distlock::core
