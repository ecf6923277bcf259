// SPDX-License-Identifier: Apache-2.0
#include "core/bundles.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/callers.h"
#include "core/check.h"
#include "core/grants.h"
#include "core/leases.h"
#include "core/limits.h"
#include "core/refusal_causes.h"
#include "core/waiters.h"

namespace distlock::core {

void Bundles::Handle(AcquireAll& in) {
  const Acquire& first = in.parts.front();
  Session* session = nullptr;
  if (!first.detached) {
    session = sessions_.Find(first.session);
    if (session == nullptr) return;  // ended meanwhile: its end answers everything
  }
  auto owned = std::make_unique<Bundle>(*this);
  Bundle& bundle = *owned;
  bundle.serial = core_.NextSerial();
  bundle.detached = first.detached;
  bundle.callers.push_back(callers_.Of(first));
  const auto refuse_at_once = [&](RefusalReason reason, std::string cause) {
    for (Acquire& part : in.parts) bundle.parts.push_back({.spec = std::move(part)});
    TellCaller(bundle, bundle.callers.front(), Refused{.reason = reason, .cause = std::move(cause)});
  };
  if (core_.draining) return refuse_at_once(RefusalReason::kDraining, "");
  const bool supported = std::ranges::all_of(in.parts, [&](const Acquire& part) { return core_.Supports(part.want); });
  if (!supported) return refuse_at_once(RefusalReason::kNotSupported, kNoPermits);
  if (bundle.detached && JoinRepeat(in)) return;
  const std::string why_not = WhyNot(in, session);
  for (Acquire& part : in.parts) {
    if (part.detached && part.max_hold > Duration::zero()) part.ttl = std::min(part.ttl, part.max_hold);
    bundle.parts.push_back({.spec = std::move(part)});
  }
  if (!why_not.empty()) {
    const RefusalReason reason = session != nullptr ? RefusalReason::kQuotaExceeded : RefusalReason::kInvalidArgument;
    return TellCaller(bundle, bundle.callers.front(), Refused{.reason = reason, .cause = why_not});
  }
  std::sort(bundle.parts.begin(), bundle.parts.end(),
            [](const Bundle::Item& a, const Bundle::Item& b) { return a.spec.name < b.spec.name; });
  if (session != nullptr) {
    for (const Bundle::Item& part : bundle.parts) session->bundles.emplace(part.spec.request, &bundle);
  } else {
    calls_.emplace(bundle.callers.front().listener.session, &bundle);
  }
  for (const Bundle::Item& part : bundle.parts) claims_.AddBundle(part.spec.owner);
  bundles_.emplace(bundle.serial, std::move(owned));
  core_.store_up&& core_.config.store.takes_many_at_once ? TryAll(bundle) : AskForNext(bundle);
}

// Empty: the request can be tried.
std::string Bundles::WhyNot(const AcquireAll& in, const Session* session) const {
  if (session != nullptr) return sessions_.WhyFull(*session, in.parts.size());
  const bool in_use = std::ranges::any_of(in.parts, [&](const Acquire& part) { return claims_.IsInUse(part.owner); });
  return in_use ? kRequestIdInUse : "";
}

// A repeat of a request that still waits here shares its locks, and waits as long as the repeat says.
bool Bundles::JoinRepeat(const AcquireAll& in) {
  const auto is_same = [&](const auto& entry) {
    const std::vector<Bundle::Item>& parts = entry.second->parts;
    return entry.second->detached && parts.size() == in.parts.size() &&
           std::all_of(in.parts.begin(), in.parts.end(), [&](const Acquire& one) {
             return std::any_of(parts.begin(), parts.end(), [&](const Bundle::Item& part) {
               return part.spec.owner == one.owner && part.spec.request == one.request;
             });
           });
  };
  if (!IsRepeatable(in.parts.front().owner)) return false;
  const auto found = std::find_if(bundles_.begin(), bundles_.end(), is_same);
  if (found == bundles_.end()) return false;
  Bundle& bundle = *found->second;
  calls_.emplace(in.parts.front().session, &bundle);
  if (bundle.op == 0) {
    callers_.Join(*claims_.WaiterOf(bundle.parts[bundle.next].spec.owner), in.parts.front());
  } else {
    bundle.callers.push_back(callers_.Of(in.parts.front()));
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
    all.items.push_back(StoreAcquire{.name = part.spec.name,
                                     .want = part.spec.want,
                                     .owner = part.spec.owner,
                                     .ttl = part.spec.ttl,
                                     .lock_delay = part.spec.lock_delay,
                                     .max_hold = part.spec.max_hold,
                                     .info = part.spec.info});
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
  // Asking for one lock after the other finds out why.
  if (!granted) {
    const bool unknown = std::holds_alternative<StoreUnknown>(reply.outcome);
    if (!unknown) bundle.may_run_until = {};
    return AskForNext(bundle);
  }
  for (const Bundle::Item& part : bundle.parts) {
    // A release under way undoes it, or it is too old to be believed: ask again.
    const bool releasing = claims_.ReleaseOf(part.spec.owner) != nullptr;
    if (releasing || core_.now >= op.sent + part.spec.ttl - core_.Margin(part.spec.ttl)) return AskForNext(bundle);
  }
  bundle.may_run_until = {};
  for (size_t i = 0; i < bundle.parts.size(); ++i) {
    const Duration ttl = bundle.parts[i].spec.ttl;
    const GrantNews news{.token = done->grants[i].token,
                         .since = done->grants[i].since,
                         .made = op.sent,
                         .made_by = core_.now,
                         .ttl = ttl,
                         .deadline = op.sent + ttl - core_.Margin(ttl)};
    if (!KeepPart(bundle, i, news)) return RefuseIdInUse(bundle);
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
  Instant at = core_.FindOp(bundle.op)->sent + core_.AttemptTimeout(bundle.parts.front().spec.ttl);
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
    DropCaller(bundle, caller.listener.session, &refused);
    if (!bundles_.contains(serial)) return;
  }
  if (core_.now >= core_.FindOp(bundle.op)->sent + core_.AttemptTimeout(bundle.parts.front().spec.ttl)) {
    return AskForNext(bundle);
  }
  Arm(bundle);
}

void Bundles::LosePart(Lease& lease, const std::string& cause) {
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
    core_.Refuse({caller.listener.session, part.spec.request}, part.spec.name, told);
  }
}

void Bundles::DropCaller(Bundle& bundle, SessionId session, const Refused* refused) {
  const auto caller = std::find_if(bundle.callers.begin(), bundle.callers.end(),
                                   [&](const Caller& one) { return one.listener.session == session; });
  if (refused != nullptr) TellCaller(bundle, *caller, *refused);
  if (bundle.callers.size() == 1) return End(bundle);
  bundle.callers.erase(caller);
  calls_.erase(session);
  Arm(bundle);
}

void Bundles::OrphanAllOf(Session& session, const Refused* refused) {
  while (!session.bundles.empty()) {
    Bundle& bundle = *session.bundles.begin()->second;
    for (const Caller& caller : bundle.callers) {
      if (refused != nullptr) TellCaller(bundle, caller, *refused);
    }
    End(bundle, /*keep=*/true);
  }
}

void Bundles::EndAllOf(Session& session) {
  while (!session.bundles.empty()) End(*session.bundles.begin()->second);
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
        leases_.ReleaseLater(lease, core_.KeepForNextTry());
      } else {
        leases_.Release(lease, Listener{}, Duration::zero());
      }
    } else if (Waiter* const waiter = claims_.WaiterOf(owner); waiter != nullptr && waiter->bundle == &bundle) {
      waiter->bundle = nullptr;
      keep ? waiters_.Orphan(*waiter, nullptr) : waiters_.Withdraw(*waiter);
    } else if (bundle.may_run_until != Instant{} && claims_.LeaseOf(owner) == nullptr) {
      PendingRelease& release = releases_.Undo(part.spec, bundle.may_run_until, bundle.may_run_until > core_.now);
      keep&& IsTry(owner) ? releases_.PursueLater(release, core_.KeepForNextTry()) : releases_.Pursue(release);
    }
  }
  for (const Caller& caller : bundle.callers) {
    calls_.erase(caller.listener.session);
    if (Session* const session = sessions_.Find(caller.listener.session); session != nullptr) {
      for (const Bundle::Item& part : bundle.parts) session->bundles.erase(part.spec.request);
    }
  }
  for (const Bundle::Item& part : bundle.parts) claims_.RemoveBundle(part.spec.owner);
  core_.timers.Cancel(bundle);
  bundles_.erase(serial);
}

bool Bundles::DropCall(SessionId session) {
  const auto found = calls_.find(session);
  if (found == calls_.end()) return false;
  DropCaller(*found->second, session, nullptr);
  return true;
}

void Bundles::RefuseIdInUse(Bundle& bundle) {
  Refuse(bundle, Refused{.reason = RefusalReason::kInvalidArgument, .cause = kRequestIdInUse});
}

void Bundles::RefuseEvery(const Refused& refused) {
  while (!bundles_.empty()) Refuse(*bundles_.begin()->second, refused);
}

void Bundles::RenewKept() {
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
      if (bundle->detached) DISTLOCK_CHECK(calls_.at(caller.listener.session) == bundle.get());
    }
    deadlines += bundle->at != kNever;
  }
  return deadlines;
}

}  // namespace distlock::core
