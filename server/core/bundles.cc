// SPDX-License-Identifier: Apache-2.0
#include "core/bundles.h"

#include <algorithm>
#include <utility>

#include "core/callers.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/refusal_causes.h"
#include "core/waiters.h"
#include "core/wants.h"

namespace distlock::core {

void Bundles::Handle(AcquireAll& in) {
  auto owned = std::make_unique<Bundle>(*this);
  Bundle& bundle = *owned;
  for (Acquire& part : in.parts) {
    if (part.detached && part.max_hold > Duration::zero()) part.ttl = std::min(part.ttl, part.max_hold);
    bundle.parts.push_back({.spec = std::move(part)});
  }
  const Acquire& first = bundle.parts.front().spec;
  bundle.detached = first.detached;
  bundle.callers.push_back(callers_.CallerFor(first));
  Session* const session = bundle.detached ? nullptr : sessions_.Find(first.session);
  if (session == nullptr && !bundle.detached) return;  // ended meanwhile: its end answers everything
  if (const std::optional<Refused> why_not = WhyNot(bundle, session)) {
    return TellCaller(bundle, bundle.callers.front(), *why_not);
  }
  if (bundle.detached && JoinRepeat(bundle)) return;
  if (bundle.detached && IsInUse(bundle)) {
    return TellCaller(bundle, bundle.callers.front(),
                      {.reason = RefusalReason::kInvalidArgument, .cause = kRequestIdInUse});
  }
  std::ranges::sort(bundle.parts, {}, [](const Bundle::Item& part) -> const LockName& { return part.spec.name; });
  for (const Bundle::Item& part : bundle.parts) {
    if (session != nullptr) session->bundles.emplace(part.spec.request, &bundle);
    claims_.AddBundle(part.spec.owner);
  }
  if (session == nullptr) detached_.emplace(bundle.callers.front().recipient.session, &bundle);
  bundle.serial = core_.NextSerial();
  bundles_.emplace(bundle.serial, std::move(owned));
  const bool at_once = core_.store_up && core_.config.store.takes_many_at_once;
  at_once ? TryAll(bundle) : AskForNext(bundle);
}

// nullopt: the request can be tried.
std::optional<Refused> Bundles::WhyNot(const Bundle& bundle, const Session* session) const {
  if (core_.draining) return Refused{.reason = RefusalReason::kDraining};
  const auto spec_of = [](const Bundle::Item& part) -> const Acquire& { return part.spec; };
  if (!std::ranges::all_of(bundle.parts, [&](const Acquire& one) { return core_.Supports(one.want); }, spec_of)) {
    return Refused{.reason = RefusalReason::kNotSupported, .cause = kNoPermits};
  }
  std::string why = session == nullptr ? "" : sessions_.WhyFull(*session, bundle.parts.size());
  if (why.empty()) return std::nullopt;
  return Refused{.reason = RefusalReason::kQuotaExceeded, .cause = std::move(why)};
}

bool Bundles::IsInUse(const Bundle& bundle) const {
  return std::ranges::any_of(bundle.parts, [&](const Bundle::Item& part) { return claims_.IsInUse(part.spec.owner); });
}

// A repeat of a request that still waits here shares its locks, and waits as long as the repeat says.
bool Bundles::JoinRepeat(const Bundle& repeat) {
  if (!IsRepeatable(repeat.parts.front().spec.owner)) return false;
  const auto is_part = [](const Bundle::Item& a, const Bundle::Item& b) {
    return a.spec.owner == b.spec.owner && a.spec.request == b.spec.request;
  };
  const auto found = std::ranges::find_if(bundles_, [&](const auto& entry) {
    return entry.second->detached && std::ranges::is_permutation(entry.second->parts, repeat.parts, is_part);
  });
  if (found == bundles_.end()) return false;
  Bundle& bundle = *found->second;
  const Acquire& first = repeat.parts.front().spec;
  detached_.emplace(first.session, &bundle);
  if (bundle.op == 0) {
    callers_.Join(*claims_.WaiterOf(bundle.parts[bundle.next].spec.owner), first);
  } else {
    bundle.callers.push_back(callers_.CallerFor(first));
    Arm(bundle);
  }
  return true;
}

// Sends one store command for all locks. It takes all of them if all are free, else none.
void Bundles::TryAll(Bundle& bundle) {
  const Duration timeout = core_.AttemptTimeout(bundle.parts.front().spec.ttl);
  StoreAcquireAll all;
  all.run_before = core_.now + timeout;
  Op op{.sender = this, .runs_until = all.run_before, .waiter = bundle.serial};
  for (const Bundle::Item& part : bundle.parts) {
    // A pending release of the same owner must be confirmed first: see Waiters::Ask.
    if (claims_.ReleaseOf(part.spec.owner) != nullptr) return AskForNext(bundle);
    op.owners.push_back(part.spec.owner);
    op.names.push_back(part.spec.name);
    all.items.push_back(Waiters::CommandFor(part.spec));
  }
  bundle.may_run_until = op.runs_until;
  bundle.op = all.op = core_.SendOp(std::move(op));
  core_.Command(std::move(all));
  Arm(bundle);
}

void Bundles::OnReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<AcquireAllDone>(&reply.outcome);
  const bool granted = done != nullptr && done->grants.size() == op.owners.size();
  const auto found = bundles_.find(op.waiter);
  if (found == bundles_.end() || found->second->op != id) {
    if (granted) OnLateReply(op);
    return;
  }
  Bundle& bundle = *found->second;
  bundle.op = 0;
  if (!granted) {
    if (!std::holds_alternative<StoreUnknown>(reply.outcome)) bundle.may_run_until = {};
    return AskForNext(bundle);  // asking for one lock after the other finds out why
  }
  for (const Bundle::Item& part : bundle.parts) {
    // A release under way undoes it, or it is too old to be believed: ask again.
    const bool releasing = claims_.ReleaseOf(part.spec.owner) != nullptr;
    if (releasing || core_.now >= core_.DeadlineOf(op.sent, part.spec.ttl)) return AskForNext(bundle);
  }
  bundle.may_run_until = {};
  for (size_t i = 0; i < bundle.parts.size(); ++i) {
    const Duration ttl = bundle.parts[i].spec.ttl;
    const GrantNews news{.token = done->grants[i].token,
                         .since = done->grants[i].since,
                         .made_earliest = op.sent,
                         .made_latest = core_.now,
                         .ttl = ttl,
                         .deadline = core_.DeadlineOf(op.sent, ttl)};
    if (!TakePart(bundle, i, news)) return RefuseIdInUse(bundle);
  }
  GrantAll(bundle);
}

// The bundle was given up meanwhile. Releases what the command took, unless a later request has it or waits for it.
void Bundles::OnLateReply(const Op& op) {
  for (size_t i = 0; i < op.owners.size(); ++i) {
    const OwnerId& owner = op.owners[i];
    if (claims_.IsKnown(owner)) continue;
    releases_.Withdraw(op.names[i], owner, kAttemptMax);
  }
}

void Bundles::AskForNext(Bundle& bundle) {
  bundle.op = 0;
  const OwnerId& owner = bundle.parts[bundle.next].spec.owner;
  if (claims_.IsInUse(owner)) return RefuseIdInUse(bundle);
  Arm(bundle);
  waiters_.AskForPart(bundle);
}

void Bundles::Arm(Bundle& bundle) {
  if (bundle.op == 0) return core_.timers.Cancel(bundle);  // the waiter for the next part has its callers' deadlines
  Instant at = bundle.may_run_until;
  for (const Caller& caller : bundle.callers) at = std::min(at, caller.deadline);
  core_.Arm(bundle, at);
}

void Bundles::OnTimer(Bundle& bundle) {
  const uint64_t serial = bundle.serial;
  for (size_t i = 0; i < bundle.callers.size();) {
    const Caller caller = bundle.callers[i];
    if (core_.now < caller.deadline) {
      ++i;
      continue;
    }
    const LockName& first = bundle.parts.front().spec.name;
    Refused refused = callers_.WhyItEnds(caller, first, /*answered=*/false, /*trouble=*/"");
    refused.about = first;
    DropCaller(bundle, caller.recipient.session, &refused);
    if (!bundles_.contains(serial)) return;
  }
  core_.now >= bundle.may_run_until ? AskForNext(bundle) : Arm(bundle);
}

void Bundles::OnLeaseLost(Lease& lease, const std::string& cause) {
  DISTLOCK_CHECK(lease.bundle != nullptr);
  Bundle& bundle = *lease.bundle;
  Refuse(bundle, Refused{.reason = RefusalReason::kStoreUnavailable,
                         .cause = "it was lost while other locks were waited for: " + cause,
                         .retry_after = kRetryMin,
                         .about = lease.name});
}

void Bundles::Refuse(Bundle& bundle, const Refused& refused) {
  for (const Caller& caller : bundle.callers) TellCaller(bundle, caller, refused);
  End(bundle);
}

void Bundles::TellCaller(const Bundle& bundle, const Caller& caller, const Refused& refused) {
  Refused told = refused;
  told.waited = core_.now - caller.arrived;
  for (const Bundle::Item& part : bundle.parts) {
    core_.Refuse({caller.recipient.session, part.spec.request}, part.spec.name, told);
  }
}

void Bundles::DropCaller(Bundle& bundle, SessionId session, const Refused* refused) {
  const auto caller = std::find_if(bundle.callers.begin(), bundle.callers.end(),
                                   [&](const Caller& one) { return one.recipient.session == session; });
  if (refused != nullptr) TellCaller(bundle, *caller, *refused);
  if (bundle.callers.size() == 1) return End(bundle);
  bundle.callers.erase(caller);
  detached_.erase(session);
  Arm(bundle);
}

void Bundles::EndAllOf(Session& session, bool keep, const Refused* refused) {
  while (!session.bundles.empty()) {
    Bundle& bundle = *session.bundles.begin()->second;
    for (const Caller& caller : bundle.callers) {
      if (refused != nullptr) TellCaller(bundle, caller, *refused);
    }
    End(bundle, keep);
  }
}

// Releases what the bundle has taken or may have taken. No caller has been told of it, so no belief has to be waited
// out; but a repeat of the request may have the same grants through another broker.
void Bundles::End(Bundle& bundle, bool keep) {
  const uint64_t serial = bundle.serial;
  for (const Bundle::Item& part : bundle.parts) {
    const OwnerId& owner = part.spec.owner;
    if (part.taken) {
      Lease& lease = *claims_.LeaseOf(owner);
      lease.bundle = nullptr;
      if (IsRepeatable(owner)) {
        claims_.LeaveToTtl(owner, core_.now + lease.ttl);
        leases_.Forget(lease);
      } else if (keep && IsTry(owner)) {
        leases_.ReleaseLater(lease, core_.RetryWindow());
      } else {
        leases_.Release(lease, Recipient{}, Duration::zero());
      }
    } else if (Waiter* const waiter = claims_.WaiterOf(owner); waiter != nullptr && waiter->bundle == &bundle) {
      waiter->bundle = nullptr;
      keep ? waiters_.KeepForRetry(*waiter, nullptr) : waiters_.Withdraw(*waiter);
    } else if (bundle.may_run_until != Instant{} && claims_.LeaseOf(owner) == nullptr) {
      PendingRelease& release = releases_.Undo(part.spec, bundle.may_run_until, bundle.may_run_until > core_.now);
      const bool later = keep && IsTry(owner);
      later ? releases_.PursueAfter(release, core_.RetryWindow()) : releases_.Pursue(release);
    }
  }
  for (const Caller& caller : bundle.callers) {
    detached_.erase(caller.recipient.session);
    if (Session* const session = sessions_.Find(caller.recipient.session); session != nullptr) {
      for (const Bundle::Item& part : bundle.parts) session->bundles.erase(part.spec.request);
    }
  }
  for (const Bundle::Item& part : bundle.parts) claims_.RemoveBundle(part.spec.owner);
  core_.timers.Cancel(bundle);
  bundles_.erase(serial);
}

void Bundles::OnStreamEnd(SessionId session) {
  const auto found = detached_.find(session);
  if (found != detached_.end()) DropCaller(*found->second, session, nullptr);
}

void Bundles::RefuseIdInUse(Bundle& bundle) {
  Refuse(bundle, Refused{.reason = RefusalReason::kInvalidArgument, .cause = kRequestIdInUse});
}

void Bundles::RefuseEvery(const Refused& refused) {
  while (!bundles_.empty()) Refuse(*bundles_.begin()->second, refused);
}

void Bundles::RenewTaken() {
  for (const auto& [serial, bundle] : bundles_) {
    for (const Bundle::Item& part : bundle->parts) {
      if (part.taken) leases_.RenewSoon(*claims_.LeaseOf(part.spec.owner));
    }
  }
}

size_t Bundles::Check() const {
  size_t deadlines = 0;
  for (const auto& [serial, bundle] : bundles_) {
    DISTLOCK_CHECK(bundle->serial == serial && !bundle->callers.empty() && bundle->next < bundle->parts.size());
    for (size_t i = 0; i < bundle->parts.size(); ++i) {
      const Bundle::Item& part = bundle->parts[i];
      DISTLOCK_CHECK(part.taken == (i < bundle->next));
      if (part.taken) DISTLOCK_CHECK(claims_.LeaseOf(part.spec.owner)->bundle == bundle.get());
    }
    // One command for all is under way, or the next part is waited for.
    const Waiter* const waiter = claims_.WaiterOf(bundle->parts[bundle->next].spec.owner);
    const bool waits = waiter != nullptr && waiter->bundle == bundle.get();
    DISTLOCK_CHECK(waits == (bundle->op == 0));
    DISTLOCK_CHECK(waits || (core_.IsInFlight(bundle->op, this) && bundle->at != kNever));
    for (const Caller& caller : bundle->callers) {
      if (bundle->detached) DISTLOCK_CHECK(detached_.at(caller.recipient.session) == bundle.get());
    }
    deadlines += bundle->at != kNever;
  }
  return deadlines;
}

// Begins a lease that is told to no caller until all parts are there. False: its owner has a lease already.
bool Bundles::TakePart(Bundle& bundle, size_t index, const GrantNews& news) {
  Bundle::Item& part = bundle.parts[index];
  if (claims_.LeaseOf(part.spec.owner) != nullptr) return false;
  part.news = news;
  part.taken = true;
  Lease& lease = leases_.Begin(part.spec, news, bundle.may_run_until);
  lease.bundle = &bundle;
  leases_.Arm(lease);
  return true;
}

void Bundles::GrantPart(Waiter& waiter, const GrantNews& news) {
  Bundle& bundle = *waiter.bundle;
  const Instant may_run_until = waiters_.LatestRun(waiter);
  waiter.bundle = nullptr;
  waiters_.Forget(waiter);
  if (!TakePart(bundle, bundle.next, news)) return RefuseIdInUse(bundle);
  Lease& lease = *claims_.LeaseOf(bundle.parts[bundle.next].spec.owner);
  lease.may_run_until = std::max(lease.may_run_until, may_run_until);
  if (++bundle.next < bundle.parts.size()) return AskForNext(bundle);
  bundle.next = 0;
  GrantAll(bundle);
}

// How long all parts have been granted. For a stream, that begins now. A detached request may be the repeat of one that
// was granted through another broker: its max_hold counts from when the store granted the last part, and each part's
// lease id says so.
Duration Bundles::CountFromTheLast(Bundle& bundle) const {
  if (!bundle.detached) return Duration::zero();
  const auto made = [](const Bundle::Item& part) { return part.news.made_earliest; };
  const GrantNews last = std::ranges::max_element(bundle.parts, {}, made)->news;
  for (Bundle::Item& part : bundle.parts) part.news.since = last.since;
  Duration held = core_.now - last.made_earliest;
  held += core_.Drift(held);
  return std::max(held, Duration::zero());
}

// The request was granted before, and its max_hold ends that grant: releases what is left of it in the store as soon as
// nobody can have been promised it for longer, and asks anew.
void Bundles::TakeAnew(Bundle& bundle) {
  Instant made_latest = Instant::min();
  Duration max_hold{};
  for (const Bundle::Item& part : bundle.parts) {
    made_latest = std::max(made_latest, part.news.made_latest);
    max_hold = std::max(max_hold, part.spec.max_hold);
  }
  const Duration promised = std::max(made_latest + max_hold - core_.now, Duration::zero());
  for (Bundle::Item& part : bundle.parts) {
    Lease& lease = *claims_.LeaseOf(part.spec.owner);
    part.taken = false;
    leases_.ReleaseLater(lease, promised, lease.lock_delay);
  }
  AskForNext(bundle);
}

void Bundles::GrantAll(Bundle& bundle) {
  const Duration held = CountFromTheLast(bundle);
  for (const Bundle::Item& part : bundle.parts) {
    if (part.spec.max_hold > Duration::zero() && part.spec.max_hold - held <= kMarginFloor) return TakeAnew(bundle);
  }
  for (const Bundle::Item& part : bundle.parts) {
    Lease& lease = *claims_.LeaseOf(part.spec.owner);
    lease.bundle = nullptr;
    if (part.spec.max_hold > Duration::zero()) lease.hold_until = core_.now - held + part.spec.max_hold;
    const bool is_new = part.news.arrival == Arrival::kAnswer && lease.granted == core_.now;
    lease.granted = core_.now;
    Granted granted = sessions_.GrantedOf(lease, part.spec.want.mode, part.news.since);
    Duration waited{};
    for (const Caller& caller : bundle.callers) {
      const Recipient recipient{caller.recipient.session, part.spec.request};
      waited = core_.now - caller.arrived;
      granted.waited = core_.Shortened(waited);
      if (bundle.detached) {
        granted.valid_for = core_.Shortened(BelieveUntil(lease) - core_.now);
        core_.Tell(recipient, granted);
      } else {
        lease.recipient = recipient;
        sessions_.Give(*sessions_.Find(recipient.session), recipient.request, lease, granted);
      }
    }
    core_.Note({.kind = FactKind::kGranted, .value = waited, .name = lease.name});
    if (bundle.detached) {
      claims_.LeaveToTtl(lease.owner, core_.now + lease.ttl);
      leases_.Forget(lease);
    } else {
      leases_.Arm(lease);
      if (!is_new) wants_.AskWhoWaits(lease);
    }
  }
  for (Bundle::Item& part : bundle.parts) part.taken = false;
  bundle.may_run_until = {};
  End(bundle);
}

}  // namespace distlock::core
