// SPDX-License-Identifier: Apache-2.0
//
// Broker: several locks, all or nothing. What is taken first is kept, and renewed, until the last one is granted; nobody is told
// before. Taking them in one order everywhere rules out circles of waiters (Havender 1968).
#include <algorithm>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/refusal_causes.h"

namespace distlock::core {
namespace {

Refused IdInUse() {
  return Refused{.reason = RefusalReason::kInvalidArgument, .cause = kRequestIdInUse, .holders = {}};
}

}  // namespace

void Broker::Handle(AcquireAll& in) {
  const Acquire& first = in.parts.front();
  Session* session = nullptr;
  if (!first.detached) {
    const auto found = sessions_.find(first.session);
    if (found == sessions_.end()) return;  // ended meanwhile: its end answers everything
    session = found->second.get();
  }
  auto owned = std::make_unique<Bundle>();
  Bundle& bundle = *owned;
  bundle.serial = core_.NextSerial();
  bundle.detached = first.detached;
  bundle.callers.push_back(AskerOf(first));
  if (draining_) {
    for (Acquire& part : in.parts) bundle.parts.push_back({.spec = std::move(part), .since = {}});
    return TellCaller(bundle, bundle.callers.front(),
                      Refused{.reason = RefusalReason::kDraining, .cause = {}, .holders = {}});
  }
  if (bundle.detached && JoinBundle(in)) return;
  const std::string why_not = WhyNoBundle(in, session);
  for (Acquire& part : in.parts) {
    if (part.detached && part.max_hold > Duration::zero()) part.ttl = std::min(part.ttl, part.max_hold);
    bundle.parts.push_back({.spec = std::move(part), .since = {}});
  }
  if (!why_not.empty()) {
    const RefusalReason reason = session != nullptr ? RefusalReason::kQuotaExceeded : RefusalReason::kInvalidArgument;
    return TellCaller(bundle, bundle.callers.front(), Refused{.reason = reason, .cause = why_not, .holders = {}});
  }
  std::sort(bundle.parts.begin(), bundle.parts.end(),
            [](const Bundle::Part& a, const Bundle::Part& b) { return a.spec.name < b.spec.name; });
  if (session != nullptr) {
    for (const Bundle::Part& part : bundle.parts) session->bundles.emplace(part.spec.request, &bundle);
  } else {
    bundle_calls_.emplace(bundle.callers.front().listener.session, &bundle);
  }
  bundles_.emplace(bundle.serial, std::move(owned));
  store_up_&& config_.one_server ? TryAll(bundle) : AskForNext(bundle);
}

// "": nothing stands against it.
std::string Broker::WhyNoBundle(const AcquireAll& in, Session* session) const {
  if (session != nullptr) {
    const size_t has = session->leases.size() + session->waiters.size() + session->bundles.size();
    if (has + in.parts.size() <= config_.max_leases_per_session) return "";
    return "the session may have " + std::to_string(config_.max_leases_per_session) + " leases and waiters";
  }
  const bool in_use = std::any_of(in.parts.begin(), in.parts.end(), [&](const Acquire& part) {
    return waiters_.contains(part.owner) || leases_.contains(part.owner);
  });
  return in_use ? kRequestIdInUse : "";
}

// A repeat of a request that still waits here shares what it has, and waits as long as it says itself.
bool Broker::JoinBundle(const AcquireAll& in) {
  const auto is_same = [&](const auto& entry) {
    const std::vector<Bundle::Part>& parts = entry.second->parts;
    return entry.second->detached && parts.size() == in.parts.size() &&
           std::all_of(in.parts.begin(), in.parts.end(), [&](const Acquire& one) {
             return std::any_of(parts.begin(), parts.end(), [&](const Bundle::Part& part) {
               return part.spec.owner == one.owner && part.spec.request == one.request;
             });
           });
  };
  if (!IsRepeatable(in.parts.front().owner)) return false;
  const auto found = std::find_if(bundles_.begin(), bundles_.end(), is_same);
  if (found == bundles_.end()) return false;
  Bundle& bundle = *found->second;
  bundle_calls_.emplace(in.parts.front().session, &bundle);
  if (bundle.op == 0) {
    Join(*waiters_.at(bundle.parts[bundle.next].spec.owner), in.parts.front());
  } else {
    bundle.callers.push_back(AskerOf(in.parts.front()));
    ArmBundle(bundle);
  }
  return true;
}

// One call of the store for all. It finds them free, or leaves them alone.
void Broker::TryAll(Bundle& bundle) {
  const Duration timeout = AttemptTimeout(bundle.parts.front().spec.ttl);
  StoreAcquireAll all;
  all.not_after = clock_.known() ? clock_.Latest(now_ + timeout) : StoreTime{};
  Op op;
  op.verb = Op::Verb::kAcquireAll;
  op.runs_until = clock_.known() ? clock_.ShownBy(all.not_after, now_) : now_ + timeout + kAttemptMax;
  op.waiter = bundle.serial;
  for (const Bundle::Part& part : bundle.parts) {
    // One that is being given back must be confirmed first: see Ask.
    if (releases_.Contains(part.spec.owner)) return AskForNext(bundle);
    op.owners.push_back(part.spec.owner);
    op.names.push_back(part.spec.name);
    all.items.push_back(StoreAcquire{.name = part.spec.name,
                                     .want = part.spec.want,
                                     .owner = part.spec.owner,
                                     .ttl = part.spec.ttl,
                                     .lock_delay = part.spec.lock_delay,
                                     .not_after = {},
                                     .info = part.spec.info});
  }
  bundle.straggler_until = op.runs_until;
  bundle.op = all.op = SendOp(std::move(op));
  Command(std::move(all));
  ArmBundle(bundle);
}

void Broker::OnAcquireAllReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<AcquireAllDone>(&reply.outcome);
  const bool granted = done != nullptr && done->grants.size() == op.owners.size();
  const auto found = bundles_.find(op.waiter);
  if (found == bundles_.end() || found->second->op != id) {
    // Given up meanwhile. What it took, and nobody waits for or has, goes back.
    for (size_t i = 0; granted && i < op.owners.size(); ++i) {
      const OwnerId& owner = op.owners[i];
      const bool known = waiters_.contains(owner) || leases_.contains(owner) || releases_.Contains(owner) ||
                         GrantedRecently(owner) || IsRepeatable(owner);
      if (!known) PursueGiveBack(StartGiveBack(op.names[i], owner, /*waiting=*/true, Duration::zero(), kAttemptMax));
    }
    return;
  }
  Bundle& bundle = *found->second;
  bundle.op = 0;
  // Whatever else it is, asking for one after the other finds out.
  if (!granted) {
    const bool unknown = std::holds_alternative<StoreUnknown>(reply.outcome);
    if (!unknown) bundle.straggler_until = {};
    return AskForNext(bundle);
  }
  for (const Bundle::Part& part : bundle.parts) {
    // Undone by the give-back under way, or too old to be believed: it is asked for again.
    const bool given_back = releases_.Contains(part.spec.owner);
    if (given_back || now_ >= op.sent + part.spec.ttl - Margin(part.spec.ttl)) return AskForNext(bundle);
  }
  bundle.straggler_until = {};
  for (size_t i = 0; i < bundle.parts.size(); ++i) {
    const Duration ttl = bundle.parts[i].spec.ttl;
    if (!KeepPart(bundle, i, done->grants[i].token, done->grants[i].since, op.sent + ttl - Margin(ttl))) {
      return RefuseAll(bundle, IdInUse());
    }
  }
  GrantAll(bundle);
}

void Broker::AskForNext(Bundle& bundle) {
  bundle.op = 0;
  const OwnerId& owner = bundle.parts[bundle.next].spec.owner;
  if (waiters_.contains(owner) || leases_.contains(owner)) return RefuseAll(bundle, IdInUse());
  auto owned = std::make_unique<Waiter>();
  Waiter& waiter = *owned;
  waiter.serial = core_.NextSerial();
  waiter.bundle = &bundle;
  waiter.spec = bundle.parts[bundle.next].spec;
  waiter.spec.session = 0;
  waiter.straggler_until = bundle.straggler_until;  // the call for all may take it yet
  waiter.began = now_;
  unplaced_.emplace(waiter.serial, &waiter);
  waiters_.emplace(waiter.spec.owner, std::move(owned));
  ArmBundle(bundle);
  Ask(waiter);
}

void Broker::ArmBundle(Bundle& bundle) {
  if (bundle.op == 0) return timers_.Cancel(bundle);  // the waiter for the next part has its callers' deadlines
  Instant at = core_.FindOp(bundle.op)->sent + AttemptTimeout(bundle.parts.front().spec.ttl);
  for (const Asker& caller : bundle.callers) at = std::min(at, caller.deadline);
  Arm(bundle, at);
}

void Broker::OnBundleTimer(Bundle& bundle) {
  const uint64_t serial = bundle.serial;
  for (size_t i = 0; i < bundle.callers.size();) {
    const Asker caller = bundle.callers[i];
    if (now_ < caller.deadline) {
      ++i;
      continue;
    }
    const LockName& first = bundle.parts.front().spec.name;
    Refused refused = WhyItEnds(caller, first, /*answered=*/false, /*trouble=*/"");
    refused.about = first;
    DropCaller(bundle, caller.listener.session, &refused);
    if (!bundles_.contains(serial)) return;
  }
  if (now_ >= core_.FindOp(bundle.op)->sent + AttemptTimeout(bundle.parts.front().spec.ttl)) {
    NoteSilence("no answer in time");
    return AskForNext(bundle);
  }
  ArmBundle(bundle);
}

// A lease that is renewed here, and belongs to nobody until all are there. False: its owner has one already.
bool Broker::KeepPart(Bundle& bundle, size_t part, uint64_t token, StoreTime since, Instant deadline) {
  Bundle::Part& kept = bundle.parts[part];
  if (leases_.contains(kept.spec.owner)) return false;
  kept.token = token;
  kept.since = since;
  kept.taken = true;
  auto owned = std::make_unique<Lease>();
  Lease& lease = *owned;
  lease.serial = core_.NextSerial();
  lease.name = kept.spec.name;
  lease.owner = kept.spec.owner;
  lease.token = token;
  lease.ttl = kept.spec.ttl;
  lease.lock_delay = kept.spec.lock_delay;
  lease.granted = now_;
  lease.deadline = deadline;
  lease.on_disconnect = kept.spec.on_disconnect;
  lease.straggler_until = bundle.straggler_until;
  lease.bundle = &bundle;
  renewals_.Schedule(lease, deadline - lease.ttl + Margin(lease.ttl));
  leases_.emplace(lease.owner, std::move(owned));
  ArmLease(lease);
  return true;
}

void Broker::GrantPart(Waiter& waiter, const Granted& granted, Instant deadline) {
  Bundle& bundle = *waiter.bundle;
  const Instant straggler_until = StragglerUntil(waiter);
  waiter.bundle = nullptr;
  Forget(waiter);
  if (!KeepPart(bundle, bundle.next, granted.token, granted.since, deadline)) return RefuseAll(bundle, IdInUse());
  Lease& lease = *leases_.at(bundle.parts[bundle.next].spec.owner);
  lease.straggler_until = std::max(lease.straggler_until, straggler_until);
  if (++bundle.next < bundle.parts.size()) return AskForNext(bundle);
  bundle.next = 0;
  GrantAll(bundle);
}

// For how long all parts have been granted. For a stream that begins now. A detached request may be the repeat of one that was
// granted through another broker: its max_hold counts from when the store granted the last part, and each part's lease id says so.
Duration Broker::HeldFor(Bundle& bundle) const {
  if (!bundle.detached || !clock_.known()) return Duration::zero();
  StoreTime since;
  for (const Bundle::Part& part : bundle.parts) since = std::max(since, part.since);
  for (Bundle::Part& part : bundle.parts) part.since = since;
  return std::chrono::microseconds(std::max<int64_t>(clock_.Latest(now_).us - since.us, 0));
}

// The request was granted before, and its max_hold has ended that: ends what is left of it in the store, and asks anew.
void Broker::TakeAnew(Bundle& bundle) {
  for (Bundle::Part& part : bundle.parts) {
    Lease& lease = *leases_.at(part.spec.owner);
    PendingRelease& release = releases_.Start(lease.name, lease.owner, /*waiting=*/false, lease.lock_delay,
                                              lease.ttl + lease.lock_delay, lease.token);
    release.may_run_until = lease.straggler_until;
    release.order_lost = lease.straggler_until > now_;
    part.taken = false;
    Forget(lease);
    releases_.Pursue(release);
  }
  AskForNext(bundle);
}

void Broker::GrantAll(Bundle& bundle) {
  const Duration held = HeldFor(bundle);
  for (const Bundle::Part& part : bundle.parts) {
    if (part.spec.max_hold > Duration::zero() && part.spec.max_hold - held <= kMarginFloor) return TakeAnew(bundle);
  }
  for (const Bundle::Part& part : bundle.parts) {
    Lease& lease = *leases_.at(part.spec.owner);
    lease.bundle = nullptr;
    if (part.spec.max_hold > Duration::zero()) lease.hold_until = now_ - held + part.spec.max_hold;
    lease.granted = now_;
    Granted granted{.name = lease.name,
                    .mode = part.spec.want.mode,
                    .owner = lease.owner,
                    .token = part.token,
                    .since = part.since,
                    .ttl = lease.ttl};
    for (const Asker& caller : bundle.callers) {
      const Listener listener{caller.listener.session, part.spec.request};
      granted.waited = now_ - caller.arrived;
      if (bundle.detached) {
        granted.valid_for =
            std::max<Duration>(BelieveUntil(lease) - caller.arrived - Drift(granted.waited), Duration::zero());
      } else {
        Session& session = *sessions_.at(listener.session);
        lease.listener = listener;
        session.leases.emplace(listener.request, &lease);
        session.least_belief = std::min(session.least_belief, BelieveUntil(lease));
        Promise(session, lease, granted);
      }
      Tell(listener, granted);
    }
    Note({.kind = FactKind::kGranted, .value = granted.waited, .name = lease.name, .detail = {}});
    if (bundle.detached) {
      RememberGrant(lease.owner, now_ + lease.ttl);
      Forget(lease);
    } else {
      ArmLease(lease);
    }
  }
  for (Bundle::Part& part : bundle.parts) part.taken = false;
  bundle.straggler_until = {};
  EndBundle(bundle);
}

// One of those that were taken is lost while the others are waited for.
void Broker::LosePart(Lease& lease, const std::string& cause) {
  Bundle& bundle = *lease.bundle;
  RefuseAll(bundle, Refused{.reason = RefusalReason::kStoreUnavailable,
                            .cause = "it was lost while other locks were waited for: " + cause,
                            .retry_after = kRetryMin,
                            .holders = {},
                            .about = lease.name});
}

void Broker::RefuseAll(Bundle& bundle, const Refused& refused) {
  for (const Asker& caller : bundle.callers) TellCaller(bundle, caller, refused);
  EndBundle(bundle);
}

void Broker::TellCaller(const Bundle& bundle, const Asker& caller, const Refused& refused) {
  Refused told = refused;
  told.waited = now_ - caller.arrived;
  for (const Bundle::Part& part : bundle.parts) {
    Note({.kind = FactKind::kRefused,
          .value = told.waited,
          .refusal = told.reason,
          .name = part.spec.name,
          .detail = {}});
    Tell({caller.listener.session, part.spec.request}, told);
  }
}

// `refused`: what it is told; null: it has gone.
void Broker::DropCaller(Bundle& bundle, SessionId session, const Refused* refused) {
  const auto caller = std::find_if(bundle.callers.begin(), bundle.callers.end(),
                                   [&](const Asker& one) { return one.listener.session == session; });
  if (refused != nullptr) TellCaller(bundle, *caller, *refused);
  if (bundle.callers.size() == 1) return EndBundle(bundle);
  bundle.callers.erase(caller);
  bundle_calls_.erase(session);
  ArmBundle(bundle);
}

void Broker::EndBundles(Session& session, const Refused* refused) {
  while (!session.bundles.empty()) {
    Bundle& bundle = *session.bundles.begin()->second;
    refused != nullptr ? RefuseAll(bundle, *refused) : EndBundle(bundle);
  }
}

// Gives back what it has taken or may have taken. Nobody has been told of it, so nothing needs to be waited out; but a repeat of
// the request may have the same grants through another broker.
void Broker::EndBundle(Bundle& bundle) {
  const uint64_t serial = bundle.serial;
  for (const Bundle::Part& part : bundle.parts) {
    const OwnerId& owner = part.spec.owner;
    if (part.taken) {
      Lease& lease = *leases_.at(owner);
      lease.bundle = nullptr;
      if (IsRepeatable(owner)) {
        RememberGrant(owner, now_ + lease.ttl);
        Forget(lease);
      } else {
        ReleaseLease(lease, Listener{}, Duration::zero());
      }
    } else if (const auto waiter = waiters_.find(owner);
               waiter != waiters_.end() && waiter->second->bundle == &bundle) {
      waiter->second->bundle = nullptr;
      Withdraw(*waiter->second);
    } else if (bundle.straggler_until != Instant{} && !leases_.contains(owner)) {
      PendingRelease& release = StartGiveBack(part.spec.name, owner, /*waiting=*/true, Duration::zero(),
                                              part.spec.ttl + part.spec.lock_delay);
      release.may_run_until = std::max(release.may_run_until, bundle.straggler_until);
      release.order_lost |= bundle.straggler_until > now_;
      PursueGiveBack(release);
    }
  }
  for (const Asker& caller : bundle.callers) {
    bundle_calls_.erase(caller.listener.session);
    if (const auto session = sessions_.find(caller.listener.session); session != sessions_.end()) {
      for (const Bundle::Part& part : bundle.parts) session->second->bundles.erase(part.spec.request);
    }
  }
  timers_.Cancel(bundle);
  bundles_.erase(serial);
}

}  // namespace distlock::core
