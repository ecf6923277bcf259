// SPDX-License-Identifier: Apache-2.0
#include "core/leases.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace distlock::core {
namespace {

constexpr char kMovedAway[] = "another session took it over";

}  // namespace

Lease& Leases::Begin(const Acquire& spec, const GrantNews& news, Instant may_run_until) {
  auto lease = std::make_unique<Lease>(*this);
  lease->name = spec.name;
  lease->owner = spec.owner;
  lease->token = news.token;
  lease->ttl = news.ttl;
  lease->lock_delay = spec.lock_delay;
  lease->has_min_hold = spec.min_hold > Duration::zero();
  lease->granted = core_.now;
  lease->deadline = news.deadline;
  lease->on_disconnect = spec.on_disconnect;
  lease->resume = spec.resume;
  lease->tell_wanted = spec.tell_wanted;
  lease->may_run_until = may_run_until;
  return Begin(std::move(lease), news.deadline - news.ttl + core_.Margin(news.ttl));
}

Lease& Leases::Begin(std::unique_ptr<Lease> lease, Instant sent) {
  lease->serial = core_.NextSerial();
  renewals_.Schedule(*lease, sent);
  wants_.OnBegin(*lease);
  return claims_.Hold(std::move(lease));
}

void Leases::Arm(Lease& lease) {
  if (lease.ending) return core_.Arm(lease, std::min(lease.free_at, lease.deadline));
  core_.Arm(lease, std::min({lease.deadline, lease.hold_until, lease.next_renew}));
}

void Leases::OnTimer(Lease& lease) {
  if (lease.ending) {
    // The client's belief has ended, so the lock may go to the next waiter.
    return Release(lease, Recipient{}, lease.lock_delay);
  }
  if (core_.now >= lease.hold_until && lease.hold_until <= lease.deadline) {
    return Lose(lease, LostReason::kMaxHold, "held for max_hold");
  }
  if (core_.now >= lease.deadline) {
    return Lose(lease, LostReason::kExpired, "could not be renewed in time: " + renewals_.Trouble());
  }
  if (core_.now < lease.next_renew) return Arm(lease);
  if (lease.renew_op != 0 || lease.renew_due) MarkAtRisk(lease, "no answer from the store in time");
  RenewSoon(lease);
}

// The command may leave a little later; next_renew is when an answer is overdue.
void Leases::RenewSoon(Lease& lease) {
  lease.next_renew = core_.now + lease.ttl / 6;
  Arm(lease);
  renewals_.Enqueue(lease);
}

void Leases::RenewAtRisk() {
  for (auto& [serial, lease] : at_risk_) RenewSoon(*lease);
}

void Leases::SendRenewals() {
  if (renewals_.empty()) return;
  if (core_.store_up) return renewals_.Send();
  while (Lease* lease = renewals_.PopDue()) MarkAtRisk(*lease, core_.store_trouble);
  renewals_.StopPacing();
}

void Leases::OnReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<RenewDoneBatch>(&reply.outcome);
  if (done != nullptr && done->results.size() != op.owners.size()) done = nullptr;
  const std::string* const cause = TroubleOf(reply);
  const std::string trouble = done != nullptr    ? done->trouble
                              : cause != nullptr ? *cause
                                                 : "an answer of unknown shape";
  renewals_.OnAnswered(id, trouble);
  uint32_t renewed = 0;
  uint32_t failed = 0;
  for (size_t i = 0; i < op.owners.size(); ++i) {
    Lease* const found = claims_.LeaseOf(op.owners[i]);
    if (found == nullptr || found->ending) continue;
    Lease& lease = *found;
    if (lease.renew_op == id) lease.renew_op = 0;
    if (done == nullptr || done->results[i] == RenewResult::kUnanswered) {
      ++failed;
      if (lease.renew_op == 0) MarkAtRisk(lease, trouble);
      Arm(lease);
      continue;
    }
    if (done->results[i] == RenewResult::kMoved) {
      Move(lease);
      continue;
    }
    if (done->results[i] != RenewResult::kRenewed) {
      Lose(lease, LostReason::kTaken,
           done->results[i] == RenewResult::kGone ? "the store no longer has it" : "the store has another holder");
      continue;
    }
    ++renewed;
    OnRenewed(lease, op.sent);
  }
  if (renewed > 0) core_.Note({.kind = FactKind::kRenewed, .count = renewed});
  if (failed > 0) core_.Note({.kind = FactKind::kRenewFailed, .count = failed});
}

// A renewal sent at `sent` has started the ttl anew.
void Leases::OnRenewed(Lease& lease, Instant sent) {
  lease.deadline = std::max(lease.deadline, core_.DeadlineOf(sent, lease.ttl));
  // A later attempt under way has set next_renew already.
  if (lease.renew_op == 0 && !lease.renew_due) renewals_.Schedule(lease, sent);
  if (lease.at_risk) {
    lease.at_risk = false;
    at_risk_.erase(lease.serial);
    const Sessions::Belief belief = sessions_.PromiseNow(lease);
    sessions_.TellHolder(lease, Renewed{lease.name, lease.owner, lease.token, belief.since_granted, belief.valid_for});
  }
  Arm(lease);
}

void Leases::MarkAtRisk(Lease& lease, const std::string& cause) {
  if (lease.at_risk) return;
  lease.at_risk = true;
  at_risk_.emplace(lease.serial, &lease);
  core_.Note({.kind = FactKind::kAtRisk, .name = lease.name, .detail = cause});
  const Sessions::Belief belief = sessions_.PromiseNow(lease);
  sessions_.TellHolder(lease,
                       AtRisk{lease.name, lease.owner, lease.token, belief.since_granted, belief.valid_for, cause});
}

// The end of a lease goes on record once, whatever happens to it afterwards.
void Leases::NoteEnd(Lease& lease, FactKind kind, LostReason reason, const std::string& cause) {
  if (lease.end_noted) return;
  lease.end_noted = true;
  core_.Note({.kind = kind, .value = core_.now - lease.granted, .lost = reason, .name = lease.name, .detail = cause});
}

void Leases::TellLost(Lease& lease, LostReason reason, const std::string& cause) {
  NoteEnd(lease, FactKind::kLost, reason, cause);
  sessions_.TellHolder(lease, Lost{lease.name, lease.owner, lease.token, reason, cause});
}

void Leases::Lose(Lease& lease, LostReason reason, const std::string& cause) {
  if (lease.bundle != nullptr) return bundles_.OnLeaseLost(lease, cause);
  TellLost(lease, reason, cause);
  if (reason == LostReason::kTaken && lease.may_run_until == Instant{}) return Forget(lease);
  if (core_.now < lease.adopted_until) {
    BeginEnding(lease);
    return FreeAt(lease, lease.adopted_until);
  }
  Release(lease, Recipient{}, lease.lock_delay);
}

// The lease is promised to nobody any more, and not renewed.
void Leases::BeginEnding(Lease& lease) {
  lease.had_by = lease.recipient;
  sessions_.Unlist(lease);
  lease.ending = true;
  if (lease.at_risk) at_risk_.erase(lease.serial);
  lease.at_risk = false;
}

// It is freed when the belief in former promises has ended, or when its client says that it has.
void Leases::FreeAt(Lease& lease, Instant at) {
  lease.free_at = at;
  ending_of_.emplace(std::make_tuple(lease.had_by.session, lease.had_by.request, lease.serial), &lease);
  Arm(lease);
}

void Leases::Release(Lease& lease, Recipient recipient, Duration block, bool keeps_min_hold) {
  NoteEnd(lease, lease.ending ? FactKind::kAbandoned : FactKind::kReleased, LostReason{}, "");
  PendingRelease& release = StartRelease(lease, block);
  releases_.TellOutcome(release, recipient);
  release.ends_min_hold = lease.has_min_hold && !keeps_min_hold;
  release.token = lease.token;
  Forget(lease);
  releases_.Pursue(release);
}

// Names the grant of the lease. An acquire whose answer is not known may have made the key again, under another token,
// or could still do so: that is withdrawn, when it cannot run any more.
PendingRelease& Leases::StartRelease(const Lease& lease, Duration block) {
  PendingRelease& release =
      releases_.StartRelease(lease.name, lease.owner, block, lease.ttl + lease.lock_delay, lease.token);
  const bool may_run = lease.may_run_until > core_.now;
  release.has_min_hold |= lease.has_min_hold;
  release.ends_min_hold = lease.has_min_hold;
  release.may_run_until = std::max(release.may_run_until, lease.may_run_until);
  release.order_lost |= may_run;
  release.waiting |= lease.may_run_until != Instant{} && !may_run;
  return release;
}

void Leases::ReleaseLater(Lease& lease, Duration time, Duration block) {
  PendingRelease& release = StartRelease(lease, block);
  Forget(lease);
  releases_.PursueAfter(release, time);
}

// The client releases the lease: it is done, or (`lapsed`) its clock was the first to see that the lease is over.
void Leases::EndByClient(Lease& lease, Recipient recipient, bool lapsed) {
  if (!lapsed) return Release(lease, recipient, Duration::zero(), /*keeps_min_hold=*/true);
  const LostReason reason = lease.at_risk || lease.hold_until == kNever ? LostReason::kExpired : LostReason::kMaxHold;
  NoteEnd(lease, FactKind::kLost, reason,
          "its client's deadline has passed" + (lease.at_risk ? ": " + renewals_.Trouble() : ""));
  Release(lease, recipient, lease.lock_delay);
}

void Leases::EndWithStream(Lease& lease) {
  Instant promised = lease.promised_until;
  if (const Session* const session = sessions_.Find(lease.recipient.session);
      session != nullptr && session->kind == SessionKind::kSession) {
    promised = session->promised_until;
  }
  BeginEnding(lease);
  promised = std::min(promised, BelieveUntil(lease));
  const bool former_believes = core_.now < lease.former_believes_until;
  if (former_believes) promised = std::max(promised, lease.former_believes_until);
  // This broker is about to go, and cannot know when the next one comes.
  const bool next_adopts = lease.resume && core_.draining;
  const bool safe = lease.on_disconnect == OnDisconnect::kSafe;
  switch (safe && (former_believes || next_adopts) ? OnDisconnect::kExpire : lease.on_disconnect) {
    case OnDisconnect::kExpire:
      NoteEnd(lease, FactKind::kAbandoned, LostReason{}, "");
      // The ttl ends it. An answer to an earlier attempt, or a late notice, is no reason to release it.
      claims_.LeaveToTtl(lease.owner, core_.now + lease.ttl, promised);
      return Forget(lease);
    case OnDisconnect::kRelease:
      return Release(lease, Recipient{}, lease.lock_delay);
    case OnDisconnect::kSafe:
      if (promised <= core_.now) return Release(lease, Recipient{}, lease.lock_delay);
      return FreeAt(lease, promised);
  }
}

uint32_t Leases::FreeEndingOf(SessionId session, RequestId first, RequestId last) {
  uint32_t freed = 0;
  const auto next = [&] { return ending_of_.lower_bound({session, first, 0}); };
  const std::tuple end(session, last, std::numeric_limits<uint64_t>::max());
  for (auto at = next(); at != ending_of_.end() && at->first <= end; at = next(), ++freed) {
    Lease& lease = *at->second;
    Release(lease, Recipient{}, lease.lock_delay);
  }
  return freed;
}

void Leases::Move(Lease& lease) {
  if (lease.bundle != nullptr) return bundles_.OnLeaseLost(lease, kMovedAway);
  if (!lease.ending) {
    sessions_.TellHolder(lease, Lost{lease.name, lease.owner, lease.token, LostReason::kMoved, kMovedAway});
  }
  NoteEnd(lease, FactKind::kMoved, LostReason::kMoved, kMovedAway);
  Forget(lease);
}

void Leases::Forget(Lease& lease) {
  core_.timers.Cancel(lease);
  if (lease.at_risk) at_risk_.erase(lease.serial);
  renewals_.Remove(lease);
  if (lease.free_at != kNever) ending_of_.erase({lease.had_by.session, lease.had_by.request, lease.serial});
  sessions_.Unlist(lease);
  wants_.OnEnd(lease);
  claims_.EndLease(lease.owner);
}

bool Leases::AllAreResumed() const {
  bool all = true;
  claims_.ForEach(&Claim::lease, [&](const Lease& lease) { all = all && lease.resume && !lease.ending; });
  return all;
}

size_t Leases::Check() const {
  size_t at_risk = 0;
  size_t ending = 0;
  claims_.ForEach(&Claim::lease, [&](const Lease& lease) {
    DISTLOCK_CHECK(lease.token != 0);
    // It is looked at before D, and no promise goes further.
    DISTLOCK_CHECK(lease.at <= lease.deadline && lease.promised_until <= lease.deadline);
    DISTLOCK_CHECK(lease.ending == (lease.free_at != kNever));
    if (lease.ending) {
      DISTLOCK_CHECK(!lease.at_risk && lease.bundle == nullptr && lease.at <= lease.free_at);
      DISTLOCK_CHECK(ending_of_.at({lease.had_by.session, lease.had_by.request, lease.serial}) == &lease);
    } else {
      DISTLOCK_CHECK(lease.at <= lease.hold_until);
      DISTLOCK_CHECK(lease.renew_op == 0 || core_.IsInFlight(lease.renew_op, this));
      CheckHolder(lease);
    }
    if (lease.at_risk) DISTLOCK_CHECK(at_risk_.at(lease.serial) == &lease);
    at_risk += lease.at_risk;
    ending += lease.ending;
  });
  DISTLOCK_CHECK(at_risk == at_risk_.size() && ending == ending_of_.size());
  return claims_.leases() + renewals_.Check();
}

// Somebody has it: each of the requests that took it, or a bundle.
void Leases::CheckHolder(const Lease& lease) const {
  if (lease.bundle != nullptr) return;  // see Bundles::Check
  const Session* const session = sessions_.Find(lease.recipient.session);
  DISTLOCK_CHECK(session != nullptr && session->leases.at(lease.recipient.request) == &lease);
  if (lease.reentry == nullptr) return;
  for (const RequestId other : lease.reentry->others) DISTLOCK_CHECK(session->leases.at(other) == &lease);
}

void Leases::Handle(const core::Release& in) {
  const Recipient recipient{in.session, in.request};
  if (in.acquire != 0) {
    if (const Session* const session = sessions_.Find(in.session); session != nullptr) {
      if (const auto lease = session->leases.find(in.acquire); lease != session->leases.end()) {
        Lease& taken = *lease->second;
        if (sessions_.LeaveOne(taken, in.acquire)) {
          return core_.Tell(recipient, Released{ReleaseOutcome::kStillHeld, taken.name, taken.owner, taken.token});
        }
        return EndByClient(taken, recipient, in.lapsed);
      }
    }
    // Its client may have been told that it has lost the lease, and says now that it believes in it no more.
    FreeEndingOf(in.session, in.acquire, in.acquire);
    core_.Note({.kind = FactKind::kAlreadyGone});
    return core_.Tell(recipient, Released{.outcome = ReleaseOutcome::kAlreadyGone});
  }
  if (Lease* const lease = claims_.LeaseOf(in.owner); lease != nullptr && lease->bundle != nullptr) {
    bundles_.OnLeaseLost(*lease, "its owner released it");
  }
  if (Lease* const lease = claims_.LeaseOf(in.owner); lease != nullptr) {
    if (in.token != 0 && in.token != lease->token) {
      core_.Note({.kind = FactKind::kAlreadyGone, .name = in.name});
      return core_.Tell(recipient,
                        Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = in.name, .owner = in.owner});
    }
    if (lease->recipient.session != in.session || lease->reentry != nullptr) {
      sessions_.TellHolder(*lease, Released{ReleaseOutcome::kReleased, in.name, in.owner, lease->token});
    }
    return EndByClient(*lease, recipient, in.lapsed);
  }
  claims_.ForgetLeft(in.owner);
  releases_.Release(in);
}

void Leases::Force(Lease& lease, const std::string& reason) {
  if (lease.bundle != nullptr) return bundles_.OnLeaseLost(lease, "an administrator took it: " + reason);
  lease.lock_delay = Duration::zero();
  if (lease.ending) return;  // it is freed in its time
  TellLost(lease, LostReason::kForced, reason);
  // The client lives, and believes in the lease until it hears of this.
  lease.on_disconnect = OnDisconnect::kSafe;
  EndWithStream(lease);
}

}  // namespace distlock::core
