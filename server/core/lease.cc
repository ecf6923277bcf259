// SPDX-License-Identifier: Apache-2.0
//
// Broker: from a grant to its end: deadlines, renewals, loss and release.
#include <algorithm>
#include <utility>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/prefetch.h"

namespace distlock::core {
namespace {

std::string WhyNotRenewed(const StoreReply& reply) {
  if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) return failed->cause;
  if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) return unknown->cause;
  return "an answer of unknown shape";
}

}  // namespace

// `deadline` is D, counted from before the store was told; `arrival` says how the news came.
void Broker::Grant(Waiter& waiter, uint64_t token, StoreTime since, Duration ttl, Instant deadline, Arrival arrival) {
  const bool hearsay = arrival == Arrival::kNotice || arrival == Arrival::kTend;
  if (now_ >= deadline || (hearsay && deadline - now_ < std::min(config_.validity, ttl / 3 * 2))) {
    // Too old to be believed, or for long enough to be of use until it is renewed: ask again, which starts its ttl anew if it is
    // still there. Giving it back first would have one owner's release and next acquire cross when the connection breaks
    // between them.
    LosePlace(waiter);
    waiter.exists = true;
    return Ask(waiter);
  }
  Granted granted{.name = waiter.spec.name,
                  .mode = waiter.spec.want.mode,
                  .owner = waiter.spec.owner,
                  .token = token,
                  .since = since,
                  .ttl = ttl,
                  .waited = now_ - AskersOf(waiter).front().arrived};
  if (waiter.bundle == nullptr) {
    Note({.kind = FactKind::kGranted, .value = granted.waited, .name = waiter.spec.name, .detail = {}});
  }
  if (arrival != Arrival::kAnswer) {
    const HandoffPath path = arrival == Arrival::kReply    ? HandoffPath::kReply
                             : arrival == Arrival::kNotice ? HandoffPath::kNotice
                                                           : HandoffPath::kTend;
    Note({.kind = FactKind::kHandedOff, .handoff = path, .name = waiter.spec.name, .detail = {}});
  }
  if (waiter.bundle != nullptr) return GrantPart(waiter, granted, deadline);
  if (waiter.spec.detached) {
    RememberGrant(waiter.spec.owner, now_ + ttl);
    GrantDetached(waiter, std::move(granted), deadline);
  } else {
    GrantOnStream(waiter, std::move(granted), deadline);
  }
}

void Broker::GrantDetached(Waiter& waiter, Granted granted, Instant deadline) {
  for (const Asker& asker : waiter.askers) {
    // Counted from when the request was sent, like a renewal's: no delay of the answer can lengthen belief. Its clock may have
    // been slow for as long as it waited.
    granted.waited = now_ - asker.arrived;
    granted.valid_for = std::max<Duration>(deadline - asker.arrived - Drift(granted.waited), Duration::zero());
    Tell(asker.listener, granted);
  }
  Forget(waiter);
}

void Broker::GrantOnStream(Waiter& waiter, Granted granted, Instant deadline) {
  const Listener listener = waiter.askers.front().listener;
  const auto found = sessions_.find(listener.session);
  DISTLOCK_CHECK(found != sessions_.end());
  Session& session = *found->second;

  auto owned = std::make_unique<Lease>();
  Lease& lease = *owned;
  lease.serial = core_.NextSerial();
  lease.name = waiter.spec.name;
  lease.owner = waiter.spec.owner;
  lease.listener = listener;
  lease.token = granted.token;
  lease.ttl = granted.ttl;
  lease.lock_delay = waiter.spec.lock_delay;
  lease.granted = now_;
  lease.deadline = deadline;
  if (waiter.spec.max_hold > Duration::zero()) lease.hold_until = now_ + waiter.spec.max_hold;
  lease.on_disconnect = waiter.spec.on_disconnect;
  lease.straggler_until = StragglerUntil(waiter);
  renewals_.Schedule(lease, deadline - lease.ttl + Margin(lease.ttl));
  const std::vector<Asker> others(waiter.askers.begin() + 1, waiter.askers.end());
  const std::string label = std::move(waiter.spec.reentry);
  const Want want = waiter.spec.want;
  waiter.spec.reentry.clear();  // what may be taken again is the lease now
  Forget(waiter);
  session.leases.emplace(lease.listener.request, &lease);
  session.least_belief = std::min(session.least_belief, BelieveUntil(lease));
  const bool fresh = leases_.emplace(lease.owner, std::move(owned)).second;
  DISTLOCK_CHECK(fresh);

  Promise(session, lease, granted);
  Tell(lease.listener, granted);
  if (!label.empty()) {
    session.reentrant[{lease.name, label}] = lease.owner;
    lease.reentry = std::make_unique<Reentry>(Reentry{.label = label, .want = want, .others = {}});
  }
  for (const Asker& asker : others) TakeAgain(session, lease, asker.listener.request, now_ - asker.arrived);
  ArmLease(lease);
}

// For how long a grant may be believed in, as its kind of stream counts it.
void Broker::Promise(Session& session, Lease& lease, Granted& granted) {
  if (session.kind == SessionKind::kHold) {
    granted.valid_for = std::min(config_.validity, BelieveUntil(lease) - now_);
    lease.promised_until = now_ + granted.valid_for;
    Arm(session, now_ + std::min(config_.validity, lease.ttl) / 3);
  } else {
    granted.echo_seq = session.heartbeat_seq;
    granted.valid_for = std::min(session.promised_until, BelieveUntil(lease)) - session.heartbeat_at;
  }
}

Instant Broker::BelieveUntil(const Lease& lease) const { return std::min(lease.deadline, lease.hold_until); }

void Broker::ArmLease(Lease& lease) {
  if (lease.ending) return Arm(lease, std::min(lease.free_at, lease.deadline));
  Arm(lease, std::min({lease.deadline, lease.hold_until, lease.next_renew}));
}

void Broker::OnLeaseTimer(Lease& lease) {
  if (lease.ending) {
    // Belief has ended, so the lock may go to the next one.
    return ReleaseLease(lease, Listener{}, lease.lock_delay);
  }
  if (now_ >= lease.hold_until && lease.hold_until <= lease.deadline) {
    return Lose(lease, LostReason::kMaxHold, "held for max_hold");
  }
  if (now_ >= lease.deadline) {
    return Lose(lease, LostReason::kExpired, "could not be renewed in time: " + renewals_.Trouble());
  }
  if (now_ < lease.next_renew) return ArmLease(lease);
  if (lease.renew_op != 0 || lease.renew_due) {
    MarkAtRisk(lease, "no answer from the store in time");
    NoteSilence("renewals unanswered");
  }
  RenewSoon(lease);
}

// Its turn to leave may be a little later; from now on it counts as tried.
void Broker::RenewSoon(Lease& lease) {
  lease.next_renew = now_ + lease.ttl / 6;
  ArmLease(lease);
  renewals_.Enqueue(lease);
}

// Sends what is due, or marks it at risk while the store is down.
void Broker::SendRenewals() {
  if (renewals_.empty()) return;
  if (store_up_) return renewals_.Send();
  while (Lease* lease = renewals_.PopDue()) MarkAtRisk(*lease, store_trouble_);
  renewals_.StopPacing();
}

void Broker::PrefetchLeases(const std::vector<OwnerId>& owners) const {
  for (const OwnerId& owner : owners) leases_.prefetch(owner);
  for (const OwnerId& owner : owners) {
    if (const auto found = leases_.find(owner); found != leases_.end())
      PrefetchRange(found->second.get(), sizeof(Lease));
  }
}

void Broker::OnRenewReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<RenewDoneBatch>(&reply.outcome);
  if (done != nullptr && done->results.size() != op.owners.size()) done = nullptr;
  const std::string trouble = done == nullptr ? WhyNotRenewed(reply) : "";
  renewals_.OnAnswered(id, trouble);
  uint32_t renewed = 0;
  uint32_t failed = 0;
  PrefetchLeases(op.owners);
  for (size_t i = 0; i < op.owners.size(); ++i) {
    const auto found = leases_.find(op.owners[i]);
    if (found == leases_.end() || found->second->ending) continue;
    Lease& lease = *found->second;
    if (lease.renew_op == id) lease.renew_op = 0;
    if (done == nullptr) {
      ++failed;
      if (lease.renew_op == 0) MarkAtRisk(lease, trouble);
      ArmLease(lease);
      continue;
    }
    if (done->results[i] != RenewResult::kRenewed) {
      Lose(lease, LostReason::kTaken,
           done->results[i] == RenewResult::kGone ? "the store no longer has it" : "the store has another holder");
      continue;
    }
    ++renewed;
    lease.deadline = std::max(lease.deadline, op.sent + lease.ttl - Margin(lease.ttl));
    // A later attempt under way has set the next one already.
    if (lease.renew_op == 0 && !lease.renew_due) renewals_.Schedule(lease, op.sent);
    if (lease.at_risk) {
      lease.at_risk = false;
      at_risk_.erase(lease.serial);
      const Duration left = BelieveUntil(lease) - now_;
      TellHolder(lease, Renewed{lease.name, lease.owner, lease.token, std::min(config_.validity, left)});
      if (const auto s = sessions_.find(lease.listener.session);
          s != sessions_.end() && s->second->kind == SessionKind::kHold) {
        lease.promised_until = std::max(lease.promised_until, now_ + std::min(config_.validity, left));
      }
    }
    ArmLease(lease);
  }
  if (renewed > 0) Note({.kind = FactKind::kRenewed, .count = renewed, .name = {}, .detail = {}});
  if (failed > 0) Note({.kind = FactKind::kRenewFailed, .count = failed, .name = {}, .detail = {}});
}

// The end of a lease goes on record once, whatever happens to it afterwards.
void Broker::NoteEnd(Lease& lease, FactKind kind, LostReason reason, const std::string& cause) {
  if (lease.end_noted) return;
  lease.end_noted = true;
  Note({.kind = kind, .value = now_ - lease.granted, .lost = reason, .name = lease.name, .detail = cause});
}

void Broker::MarkAtRisk(Lease& lease, const std::string& cause) {
  if (lease.at_risk) return;
  lease.at_risk = true;
  at_risk_.emplace(lease.serial, &lease);
  Note({.kind = FactKind::kAtRisk, .name = lease.name, .detail = cause});
  const Duration left = std::max<Duration>(BelieveUntil(lease) - now_, Duration::zero());
  const Duration valid_for = std::min(left, config_.validity);
  // To a Hold stream this is a promise like any other.
  lease.promised_until = std::max(lease.promised_until, now_ + valid_for);
  TellHolder(lease, AtRisk{lease.name, lease.owner, lease.token, valid_for, cause});
}

void Broker::Lose(Lease& lease, LostReason reason, std::string cause) {
  if (lease.bundle != nullptr) return LosePart(lease, cause);
  NoteEnd(lease, FactKind::kLost, reason, cause);
  TellHolder(lease, Lost{lease.name, lease.owner, lease.token, reason, std::move(cause)});
  // An acquire of unknown fate could still bring back a key that is gone, or has done so under another token.
  const bool straggling = lease.straggler_until > now_;
  if (reason == LostReason::kTaken && lease.straggler_until == Instant{}) return Forget(lease);
  PendingRelease& release =
      StartGiveBack(lease.name, lease.owner, /*waiting=*/false, lease.lock_delay, lease.ttl + lease.lock_delay);
  release.token = lease.token;
  release.may_run_until = lease.straggler_until;
  release.order_lost = straggling;
  Forget(lease);
  PursueGiveBack(release);
}

// Ends the lease here at once and has the store free it; `listener` is told the outcome.
void Broker::ReleaseLease(Lease& lease, Listener listener, Duration block) {
  NoteEnd(lease, lease.ending ? FactKind::kAbandoned : FactKind::kReleased, LostReason{}, "");
  PendingRelease& release =
      StartGiveBack(lease.name, lease.owner, /*waiting=*/false, block, lease.ttl + lease.lock_delay);
  release.listener = listener;
  release.answer_until = now_ + config_.store_timeout;
  release.token = lease.token;
  release.may_run_until = lease.straggler_until;
  release.order_lost = lease.straggler_until > now_;
  Forget(lease);
  PursueGiveBack(release);
}

// Its client gives it back: as it is done with it, or as its clock was the first to see that the lease is over.
void Broker::TakeBack(Lease& lease, Listener listener, bool lapsed) {
  if (!lapsed) return ReleaseLease(lease, listener, Duration::zero());
  const LostReason reason = lease.at_risk || lease.hold_until == kNever ? LostReason::kExpired : LostReason::kMaxHold;
  NoteEnd(lease, FactKind::kLost, reason,
          "its client's deadline has passed" + (lease.at_risk ? ": " + renewals_.Trouble() : ""));
  ReleaseLease(lease, listener, lease.lock_delay);
}

// The stream broke: stop renewing now, free it when nobody can believe in it any more.
void Broker::EndLease(Lease& lease) {
  Instant promised = lease.promised_until;
  if (const auto found = sessions_.find(lease.listener.session); found != sessions_.end()) {
    Session& session = *found->second;
    if (session.kind == SessionKind::kSession) promised = session.promised_until;
  }
  Unlist(lease);
  promised = std::min(promised, BelieveUntil(lease));
  lease.ending = true;
  if (lease.at_risk) at_risk_.erase(lease.serial);
  lease.at_risk = false;
  switch (lease.on_disconnect) {
    case OnDisconnect::kExpire:
      NoteEnd(lease, FactKind::kAbandoned, LostReason{}, "");
      // The ttl ends it: an answer to an earlier attempt, or a late notice, is no reason to give it back.
      RememberGrant(lease.owner, now_ + lease.ttl, promised);
      return Forget(lease);
    case OnDisconnect::kRelease:
      return ReleaseLease(lease, Listener{}, lease.lock_delay);
    case OnDisconnect::kSafe:
      if (promised <= now_) return ReleaseLease(lease, Listener{}, lease.lock_delay);
      lease.free_at = promised;
      return ArmLease(lease);
  }
}

void Broker::Forget(Lease& lease) {
  timers_.Cancel(lease);
  if (lease.at_risk) at_risk_.erase(lease.serial);
  renewals_.Remove(lease);
  Unlist(lease);
  const OwnerId owner = lease.owner;
  leases_.erase(owner);
}

}  // namespace distlock::core
