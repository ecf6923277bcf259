// SPDX-License-Identifier: Apache-2.0
#include "core/grants.h"

#include <algorithm>
#include <utility>

#include "core/bundles.h"
#include "core/callers.h"
#include "core/check.h"
#include "core/claims.h"
#include "core/leases.h"
#include "core/pending_releases.h"
#include "core/queues.h"
#include "core/sessions.h"
#include "core/waiters.h"
#include "core/wants.h"

namespace distlock::core {

void Grants::Grant(Waiter& waiter, const GrantNews& news) {
  const Arrival arrival = news.arrival;
  const bool second_hand = arrival == Arrival::kNotice || arrival == Arrival::kTend;
  if (core_.now >= news.deadline ||
      (second_hand && news.deadline - core_.now < std::min(core_.config.validity, news.ttl / 3 * 2))) {
    // The news is too old to be believed, or to be believed for long enough until the lease is renewed. Asking again
    // starts the ttl anew if the grant is still there. Releasing it first would let one owner's release and next
    // acquire cross when the connection breaks between them.
    waiters_.LosePlace(waiter);
    waiter.exists = true;
    return waiters_.Ask(waiter);
  }
  const Duration waited = core_.now - Callers::CallersOf(waiter).front().arrived;
  Granted granted{.name = waiter.spec.name,
                  .mode = waiter.spec.want.mode,
                  .owner = waiter.spec.owner,
                  .token = news.token,
                  .since = news.since,
                  .ttl = news.ttl,
                  .waited = core_.Shortened(waited),
                  .replicas = core_.config.store.replicas};
  if (waiter.bundle == nullptr) {
    core_.Note({.kind = FactKind::kGranted, .value = waited, .name = waiter.spec.name});
  }
  if (arrival != Arrival::kAnswer) {
    const HandoffPath path = arrival == Arrival::kReply    ? HandoffPath::kReply
                             : arrival == Arrival::kNotice ? HandoffPath::kNotice
                                                           : HandoffPath::kTend;
    core_.Note({.kind = FactKind::kHandedOff, .handoff = path, .name = waiter.spec.name});
  }
  if (waiter.bundle != nullptr) return bundles_.GrantPart(waiter, news);
  if (waiter.spec.detached) {
    claims_.LeaveToTtl(waiter.spec.owner, core_.now + news.ttl);
    GrantDetached(waiter, std::move(granted), news.deadline);
  } else {
    GrantOnStream(waiter, std::move(granted), news);
  }
}

void Grants::GrantDetached(Waiter& waiter, Granted granted, Instant deadline) {
  for (const Caller& caller : waiter.callers) {
    // The caller counts from when it sent the request, so no delay of the answer can lengthen its belief.
    granted.waited = core_.Shortened(core_.now - caller.arrived);
    granted.valid_for = core_.Shortened(deadline - core_.now);
    core_.Tell(caller.recipient, granted);
  }
  waiters_.Forget(waiter);
}

void Grants::GrantOnStream(Waiter& waiter, Granted granted, const GrantNews& news) {
  const Recipient recipient = waiter.callers.front().recipient;
  Session* const found = sessions_.Find(recipient.session);
  DISTLOCK_CHECK(found != nullptr);
  Session& session = *found;

  Lease& lease = leases_.Begin(waiter.spec, news, waiters_.LatestRun(waiter));
  lease.recipient = recipient;
  if (waiter.spec.max_hold > Duration::zero()) lease.hold_until = core_.now + waiter.spec.max_hold;
  const std::vector<Caller> others(waiter.callers.begin() + 1, waiter.callers.end());
  const std::string label = std::move(waiter.spec.reentry);
  const Want want = waiter.spec.want;
  // The answer to the first attempt: no request can have seen the lock held before.
  const bool is_new = news.arrival == Arrival::kAnswer && waiter.attempts == 1;
  waiter.spec.reentry.clear();  // what may be taken again is the lease now
  waiters_.Forget(waiter);
  sessions_.Give(session, recipient.request, lease, std::move(granted));
  if (!label.empty()) {
    session.reentrant[{lease.name, label}] = lease.owner;
    lease.reentry = std::make_unique<Reentry>(Reentry{.label = label, .want = want});
  }
  for (const Caller& caller : others)
    sessions_.Reacquire(session, lease, caller.recipient.request, core_.now - caller.arrived);
  leases_.Arm(lease);
  if (!is_new) wants_.AskWhoWaits(lease);
}

void Grants::Handle(const GrantNotice& in) {
  if (in.owner == OwnerId{}) {
    // The answer to an acquire in flight may show the lock as it was before the block.
    waiters_.Hint(in.name);
    return queues_.OnBlockNotice(in);
  }
  Waiter* const found = claims_.WaiterOf(in.owner);
  Instant deadline = std::min(in.made, core_.now) + in.ttl;
  // Notices and replies come in no common order: this one may tell of a grant that has been released or lost since.
  if (found != nullptr) {
    Waiter& waiter = *found;
    // Without a place here nothing tells how old this grant is. The next answer tells whether it is still there.
    if (!waiter.queued && (waiter.exists || waiter.spec.detached)) {
      waiter.stale_before = core_.NextOp();
      return;
    }
    if (in.token <= waiter.placed_as_of) return;
    deadline = core_.DeadlineOf(in.counted_from.value_or(BeforeGrant(waiter, in.token)), in.ttl);
  }
  HandOff(in.name, in.owner,
          {.token = in.token,
           .since = in.since,
           .made_earliest = in.made,
           .made_latest = core_.now,
           .ttl = in.ttl,
           .deadline = deadline,
           .arrival = Arrival::kNotice});
}

// A notice does not surely say when the ttl began by our clock: the store's clock may have been set since the last
// reply. Only a command that we sent while the store still said "waits" is surely older than the grant. Its answer's
// `as_of` tells which grants came later.
Instant Grants::BeforeGrant(const Waiter& waiter, uint64_t token) const {
  const LocalQueue* const queue = queues_.Find(waiter.spec.name);
  const bool came_later = queue != nullptr && token > queue->seen_as_of;
  return came_later ? std::max(waiter.placed_sent, queue->seen_sent) : waiter.placed_sent;
}

void Grants::OnHolderSeen(const LockName& name, const HolderView& holder, Instant sent) {
  const Waiter* const waiter = claims_.WaiterOf(holder.owner);
  if (waiter == nullptr || !waiter->queued) return;
  // The script ran after `sent`. A store's clock that was set back since the grant says nothing about its age.
  const bool dated = holder.held_for >= Duration::zero();
  const Instant made = sent - holder.held_for;
  HandOff(name, holder.owner,
          {.token = holder.token,
           .since = holder.since,
           .made_earliest = made - core_.Drift(holder.held_for),
           .made_latest = core_.now,
           .ttl = holder.ttl,
           .deadline = dated ? core_.DeadlineOf(made, holder.ttl) : sent,
           .arrival = Arrival::kTend});
}

void Grants::HandOff(const LockName& name, const OwnerId& owner, const GrantNews& news) {
  Waiter* const waiter = claims_.WaiterOf(owner);
  if (releases_.IsKeptForRetry(owner)) return releases_.OnGrantForNobody(owner);
  if (PendingRelease* const release = claims_.ReleaseOf(owner); release != nullptr) {
    // A late release of an earlier grant does not touch this one. Any other release undoes it; when that is confirmed,
    // the waiter asks again.
    const bool spared =
        waiter != nullptr && !release->waiting && release->only_token != 0 && release->only_token != news.token;
    if (!spared) {
      if (IsRepeatable(owner)) return;
      release->waiting = true;
      return releases_.Pursue(*release);
    }
  }
  if (waiter != nullptr) return Grant(*waiter, news);
  if (claims_.LeaseOf(owner) != nullptr || claims_.IsLeft(owner)) return;  // old news
  if (IsRepeatable(owner)) return;         // another broker may have granted it to a repeat; only the ttl ends it
  if (core_.now >= news.deadline) return;  // it has expired, unless its owner has renewed it elsewhere
  releases_.Withdraw(name, owner, news.ttl);
}

void Grants::OnReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* const done = std::get_if<TendDone>(&reply.outcome);
  if (done != nullptr && !done->slot_was_gone) {
    // A waiter of ours may hold the lock already: the notice was lost, or is still on its way.
    for (const HolderView& holder : done->holders) OnHolderSeen(op.name, holder, op.sent);
  }
  Rejoin(queues_.OnTended(op, id, done));
}

void Grants::RejoinAll() { Rejoin(queues_.Everybody()); }

// They take new places in the old order.
void Grants::Rejoin(const std::vector<Waiter*>& waiters) {
  for (Waiter* waiter : waiters) waiters_.LosePlace(*waiter);
  for (Waiter* waiter : waiters) waiters_.Ask(*waiter);
}

void Grants::HandOffAll(const Op& op, const std::vector<HolderView>& all, bool look) {
  for (const HolderView& next : all) {
    HandOff(op.name, next.owner,
            {.token = next.token,
             .since = next.since,
             .made_earliest = op.sent,
             .made_latest = core_.now,
             .ttl = next.ttl,
             .deadline = core_.DeadlineOf(op.sent, next.ttl),
             .arrival = Arrival::kReply});
  }
  if (LocalQueue* const queue = queues_.Find(op.name); look && queue != nullptr) queues_.Tend(*queue);
}

}  // namespace distlock::core
