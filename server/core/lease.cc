// SPDX-License-Identifier: Apache-2.0
//
// Broker: from a grant to its end: deadlines, renewals, loss and release.
#include <algorithm>
#include <utility>

#include "core/broker.h"
#include "core/check.h"
#include "core/fetch.h"
#include "core/limits.h"

namespace distlock::core {

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
  lease.serial = next_serial_++;
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
  ScheduleRenewal(lease, deadline - lease.ttl + Margin(lease.ttl));
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

void Broker::ScheduleRenewal(Lease& lease, Instant sent) {
  const double jitter = 1.0 - kRenewJitter * Random();
  const auto wait = static_cast<int64_t>(static_cast<double>(lease.ttl.count()) * config_.renew_fraction * jitter);
  const int64_t grid = std::clamp<Duration>(lease.ttl / 30, Duration(1), kRenewGrid).count();
  // Brokers of one machine have one clock, and are not to renew all at the same time.
  const auto phase = static_cast<int64_t>(config_.seed % static_cast<uint64_t>(grid));
  const int64_t at = (sent + Duration(wait)).time_since_epoch().count() - phase;
  lease.next_renew = Instant(Duration((at + grid - 1) / grid * grid + phase));
}

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
    return Lose(lease, LostReason::kExpired, "could not be renewed in time: " + RenewTrouble());
  }
  if (now_ < lease.next_renew) return ArmLease(lease);
  if (lease.renew_op != 0 || lease.renew_due) {
    MarkAtRisk(lease, "no answer from the store in time");
    NoteSilence("renewals unanswered");
  }
  RenewSoon(lease);
}

// Why renewals fail at present.
std::string Broker::RenewTrouble() const {
  if (!store_up_) return store_trouble_;
  return renew_trouble_.empty() ? "no answer from the store" : renew_trouble_;
}

// Its turn to leave may be a little later; from now on it counts as tried.
void Broker::RenewSoon(Lease& lease) {
  lease.next_renew = now_ + lease.ttl / 6;
  ArmLease(lease);
  if (std::exchange(lease.renew_due, true)) return;
  lease.due_place = due_from_ + due_.size();
  due_.push_back(&lease);
}

void Broker::SendRenewals() {
  if (due_.empty()) return;
  if (!store_up_) {
    while (Lease* lease = TakeDue()) MarkAtRisk(*lease, store_trouble_);
    return timers_.Cancel(pace_);
  }
  std::erase_if(renewals_sent_, [this](const SentRenewal& sent) { return sent.until <= now_; });
  while (!due_.empty() && renewals_sent_.size() < kMaxRenewalsSent) SendRenewal();
  if (due_.empty()) return timers_.Cancel(pace_);
  Arm(pace_, renewals_sent_.front().until);
}

// One call for the first that are due.
void Broker::SendRenewal() {
  Op op;
  StoreRenew batch;
  const size_t most = std::min(due_.size(), kMaxRenewBatch);
  FetchDue(most);
  op.verb = Op::Verb::kRenew;
  op.owners.reserve(most);
  batch.items.reserve(most);
  batch.op = next_op_;  // as SendOp will call it
  while (batch.items.size() < kMaxRenewBatch) {
    Lease* const lease = TakeDue();
    if (lease == nullptr) break;
    lease->renew_op = batch.op;
    op.owners.push_back(lease->owner);
    batch.items.push_back(RenewItem{lease->name, lease->owner, lease->token, lease->ttl, {}});
  }
  if (batch.items.empty()) return;
  SendOp(std::move(op));
  renewals_sent_.push_back({batch.op, now_ + kRenewPace});
  Command(std::move(batch));
}

// The first that is due and still there; null: none is.
Lease* Broker::TakeDue() {
  while (!due_.empty()) {
    Lease* const lease = due_.front();
    due_.pop_front();
    ++due_from_;
    if (lease == nullptr) continue;
    lease->renew_due = false;
    lease->renew_op = 0;
    if (!lease->ending) return lease;
  }
  return nullptr;
}

void Broker::FetchDue(size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (due_[i] != nullptr) Fetch(due_[i], sizeof(Lease));
  }
  for (size_t i = 0; i < count; ++i) {
    if (due_[i] == nullptr) continue;
    const std::string& name = due_[i]->name.escaped();
    Fetch(name.data(), name.size());
  }
}

void Broker::FetchLeases(const std::vector<OwnerId>& owners) const {
  for (const OwnerId& owner : owners) leases_.prefetch(owner);
  for (const OwnerId& owner : owners) {
    if (const auto found = leases_.find(owner); found != leases_.end()) Fetch(found->second.get(), sizeof(Lease));
  }
}

void Broker::OnRenewReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<RenewDoneBatch>(&reply.outcome);
  std::string trouble;
  if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) trouble = failed->cause;
  if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) trouble = unknown->cause;
  if (done != nullptr && done->results.size() != op.owners.size()) done = nullptr;
  renew_trouble_ = done == nullptr && trouble.empty() ? "an answer of unknown shape" : trouble;
  uint32_t renewed = 0;
  uint32_t failed = 0;
  std::erase_if(renewals_sent_, [id](const SentRenewal& sent) { return sent.op == id; });
  FetchLeases(op.owners);
  for (size_t i = 0; i < op.owners.size(); ++i) {
    const auto found = leases_.find(op.owners[i]);
    if (found == leases_.end() || found->second->ending) continue;
    Lease& lease = *found->second;
    if (lease.renew_op == id) lease.renew_op = 0;
    if (done == nullptr) {
      ++failed;
      if (lease.renew_op == 0) MarkAtRisk(lease, renew_trouble_);
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
    if (lease.renew_op == 0 && !lease.renew_due) ScheduleRenewal(lease, op.sent);
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
  GiveBack& give_back =
      StartGiveBack(lease.name, lease.owner, /*waiting=*/false, lease.lock_delay, lease.ttl + lease.lock_delay);
  give_back.token = lease.token;
  give_back.straggler_until = lease.straggler_until;
  give_back.overtaken = straggling;
  Forget(lease);
  PursueGiveBack(give_back);
}

// Ends the lease here at once and has the store free it; `listener` is told the outcome.
void Broker::ReleaseLease(Lease& lease, Listener listener, Duration block) {
  NoteEnd(lease, lease.ending ? FactKind::kAbandoned : FactKind::kReleased, LostReason{}, "");
  GiveBack& give_back = StartGiveBack(lease.name, lease.owner, /*waiting=*/false, block, lease.ttl + lease.lock_delay);
  give_back.listener = listener;
  give_back.answer_until = now_ + config_.store_timeout;
  give_back.token = lease.token;
  give_back.straggler_until = lease.straggler_until;
  give_back.overtaken = lease.straggler_until > now_;
  Forget(lease);
  PursueGiveBack(give_back);
}

// Its client gives it back: as it is done with it, or as its clock was the first to see that the lease is over.
void Broker::TakeBack(Lease& lease, Listener listener, bool lapsed) {
  if (!lapsed) return ReleaseLease(lease, listener, Duration::zero());
  const LostReason reason = lease.at_risk || lease.hold_until == kNever ? LostReason::kExpired : LostReason::kMaxHold;
  NoteEnd(lease, FactKind::kLost, reason,
          "its client's deadline has passed" + (lease.at_risk ? ": " + RenewTrouble() : ""));
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
  if (lease.renew_due) due_[lease.due_place - due_from_] = nullptr;
  Unlist(lease);
  const OwnerId owner = lease.owner;
  leases_.erase(owner);
}

}  // namespace distlock::core
