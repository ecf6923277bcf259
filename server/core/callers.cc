// SPDX-License-Identifier: Apache-2.0
#include "core/callers.h"

#include <algorithm>
#include <utility>

#include "core/bundles.h"
#include "core/check.h"
#include "core/limits.h"
#include "core/look_in.h"
#include "core/refusal_causes.h"
#include "core/waiters.h"

namespace distlock::core {
namespace {

std::string WhyNot(const Want& has, const Want& wants) {
  if (has.mode == Mode::kShared && wants.mode == Mode::kExclusive) return kNoUpgrade;
  if (has.mode == Mode::kExclusive && wants.mode == Mode::kShared) {
    return "it is held EXCLUSIVE under this owner; downgrade it to SHARED, or take it again EXCLUSIVE";
  }
  return "it is held in another mode, or with other permits, under this owner; take it again as it is held";
}

Refused HeldOff(Duration left, uint32_t queue_length = 0) {
  return {.reason = RefusalReason::kStoreHoldOff, .retry_after = left, .queue_length = queue_length};
}

}  // namespace

void Callers::Handle(Acquire& in) {
  const Recipient recipient{in.session, in.request};
  if (core_.draining) return core_.Refuse(in, RefusalReason::kDraining, "");
  if (!core_.Supports(in.want)) return core_.Refuse(in, RefusalReason::kNotSupported, kNoPermits);

  Session* session = nullptr;
  if (!in.detached) {
    session = sessions_.Find(in.session);
    if (session == nullptr) return;  // ended meanwhile: its end answers everything
    if (session->leases.contains(in.request) || session->waiters.contains(in.request) ||
        session->bundles.contains(in.request)) {
      return core_.Refuse(in, RefusalReason::kInvalidArgument,
                          "the command id is in use by another acquire of this session");
    }
    if (std::string why = sessions_.WhyFull(*session, 1); !why.empty()) {
      return core_.Refuse(in, RefusalReason::kQuotaExceeded, why);
    }
    if (!in.reentry.empty() && Reenter(*session, in)) return;
    EndOtherTry(in);
  } else if (JoinRepeat(in)) {
    return;
  }

  auto owned = std::make_unique<Waiter>(waiters_);
  Waiter& waiter = *owned;
  waiter.callers.push_back(CallerFor(in));
  waiter.spec = std::move(in);
  if (waiter.spec.detached && waiter.spec.max_hold > Duration::zero()) {
    waiter.spec.ttl = std::min(waiter.spec.ttl, waiter.spec.max_hold);
  }
  if (session != nullptr) {
    session->waiters.emplace(recipient.request, &waiter);
    if (!waiter.spec.reentry.empty()) session->reentrant[{waiter.spec.name, waiter.spec.reentry}] = waiter.spec.owner;
  } else {
    detached_.emplace(recipient.session, &waiter);
  }
  waiters_.Begin(std::move(owned));
}

// The client has sent the request again before this broker noticed that the stream of an earlier try is over.
void Callers::EndOtherTry(const Acquire& in) {
  Waiter* const other = claims_.OtherTry(in.owner);
  if (other == nullptr) return;
  const Refused moved{.reason = RefusalReason::kCancelled, .cause = "its request_id has been sent again"};
  waiters_.KeepForRetry(*other, &moved);
}

Caller Callers::CallerFor(const Acquire& in) const {
  Caller caller{.recipient = {in.session, in.request}, .arrived = core_.now};
  caller.one_try = in.max_wait && *in.max_wait == Duration::zero();
  if (in.max_wait) caller.deadline = core_.now + (caller.one_try ? core_.config.store_timeout : *in.max_wait);
  return caller;
}

std::vector<Caller>& Callers::CallersOf(Waiter& waiter) {
  return waiter.bundle != nullptr ? waiter.bundle->callers : waiter.callers;
}

// A repeat of a detached request that still waits here gets the same answer, but waits only as long as the repeat says.
// Everything else is as in the first request.
bool Callers::JoinRepeat(const Acquire& in) {
  Waiter* const waiter = claims_.WaiterOf(in.owner);
  const bool taken = claims_.LeaseOf(in.owner) != nullptr;  // for a bundle
  if (waiter == nullptr && !taken) return false;
  if (taken || waiter->bundle != nullptr) {
    core_.Refuse(in, RefusalReason::kInvalidArgument, kRequestIdInUse);
    return true;
  }
  detached_.emplace(in.session, waiter);
  Join(*waiter, in);
  return true;
}

void Callers::Join(Waiter& waiter, const Acquire& in) {
  CallersOf(waiter).push_back(CallerFor(in));
  if (waiter.queued) {
    const LocalQueue& queue = *queues_.Find(waiter.spec.name);
    const bool is_left =
        TurnAwayOneTries(waiter, queue.holders, LookIn(std::nullopt, queue.holders),
                         static_cast<uint32_t>(queue.waiters.size()), queue.held_off_until - core_.now);
    if (!is_left) return;
  }
  waiters_.Arm(waiter);
}

void Callers::Unlist(const Waiter& waiter) {
  for (const Caller& caller : waiter.callers) Unlist(waiter, caller.recipient);
  if (waiter.spec.reentry.empty()) return;
  Session* const session = sessions_.Find(waiter.spec.session);
  if (session != nullptr) session->reentrant.erase({waiter.spec.name, waiter.spec.reentry});
}

// The recipient waits for this waiter no longer.
void Callers::Unlist(const Waiter& waiter, const Recipient& recipient) {
  if (waiter.spec.detached) {
    detached_.erase(recipient.session);
  } else if (Session* const session = sessions_.Find(recipient.session); session != nullptr) {
    session->waiters.erase(recipient.request);
  }
}

void Callers::OnStreamEnd(SessionId session) {
  const auto found = detached_.find(session);
  if (found == detached_.end()) return;
  Waiter& waiter = *found->second;
  if (waiter.callers.size() == 1) return waiters_.Withdraw(waiter);
  detached_.erase(found);
  std::erase_if(waiter.callers, [session](const Caller& caller) { return caller.recipient.session == session; });
}

void Callers::RefuseAllDetached(const Refused& refused) {
  while (!detached_.empty()) Refuse(*detached_.begin()->second, refused);
}

// Answers an acquire of a lock that this session holds, or waits for, under the same label. False: there is none.
bool Callers::Reenter(Session& session, const Acquire& in) {
  const auto known = session.reentrant.find({in.name, in.reentry});
  if (known == session.reentrant.end()) return false;
  Lease* const lease = claims_.LeaseOf(known->second);
  Waiter* const waiter = claims_.WaiterOf(known->second);
  DISTLOCK_CHECK((lease == nullptr) != (waiter == nullptr));
  const Want& has = lease != nullptr ? lease->reentry->want : waiter->spec.want;
  if (has.mode != in.want.mode || has.permits != in.want.permits || has.limit != in.want.limit) {
    core_.Refuse(in, RefusalReason::kNotSupported, WhyNot(has, in.want));
  } else if (lease != nullptr) {
    sessions_.Reacquire(session, *lease, in.request, Duration::zero());
  } else {
    session.waiters.emplace(in.request, waiter);
    Join(*waiter, in);
  }
  return true;
}

Recipient Callers::RecipientOf(Waiter& waiter) {
  Recipient recipient = CallersOf(waiter).front().recipient;
  if (waiter.bundle != nullptr) recipient.request = waiter.spec.request;
  return recipient;
}

// Until when a caller waits for a store that gives no answer.
Instant Callers::Patience(const Waiter& waiter, const Caller& caller) const {
  if (waiter.answered) return kNever;
  const Instant since = std::max(caller.arrived, waiter.began);
  const Instant patience = since + core_.config.store_timeout;
  if (caller.one_try && !core_.store_up) return std::min(patience, std::max(since, core_.down_since + kOneTryGrace));
  return patience;
}

Instant Callers::EndOf(const Waiter& waiter, const Caller& caller) const {
  return waiter.queued ? caller.deadline : std::min(caller.deadline, Patience(waiter, caller));
}

Refused Callers::WhyItEnds(const Caller& caller, const LockName& name, bool answered,
                           const std::string& trouble) const {
  const bool store_is_well = core_.store_up && trouble.empty();
  if (core_.now >= caller.deadline && !caller.one_try && (answered || store_is_well)) {
    const LocalQueue* const queue = queues_.Find(name);
    if (queue != nullptr && queue->held_off_until > core_.now) return HeldOff(queue->held_off_until - core_.now);
    return Refused{.reason = RefusalReason::kWaitTimeout,
                   .holders = queue == nullptr ? HolderList() : HolderList(queue->holders)};
  }
  return Refused{.reason = RefusalReason::kStoreUnavailable,
                 .cause = !trouble.empty() ? trouble
                          : core_.store_up ? "no answer"
                                           : core_.store_trouble,
                 .retry_after = kRetryMax};
}

// Refuses the callers that over() picks, for the reason that why() gives. False: no caller is left, and the waiter is
// gone.
template <typename Over, typename Why>
bool Callers::TurnAway(Waiter& waiter, Over over, Why why) {
  for (size_t i = 0; i < CallersOf(waiter).size();) {
    const Caller caller = CallersOf(waiter)[i];
    const bool last = CallersOf(waiter).size() == 1;
    if (!over(caller)) {
      ++i;
      continue;
    }
    Refused refused = why(caller);
    if (waiter.bundle != nullptr) {
      refused.about = waiter.spec.name;
      bundles_.DropCaller(*waiter.bundle, caller.recipient.session, &refused);
      if (last) return false;
      continue;
    }
    TellRefused(waiter, caller, std::move(refused));
    if (last) {
      waiters_.Withdraw(waiter);
      return false;
    }
    Unlist(waiter, caller.recipient);
    waiter.callers.erase(waiter.callers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

void Callers::TellRefused(const Waiter& waiter, const Caller& caller, Refused refused) {
  refused.waited = core_.now - caller.arrived;
  core_.Refuse(caller.recipient, waiter.spec.name, std::move(refused));
}

void Callers::Refuse(Waiter& waiter, const Refused& refused) {
  TurnAway(waiter, [](const Caller&) { return true; }, [&](const Caller&) { return refused; });
}

bool Callers::RefuseOverdue(Waiter& waiter) {
  return TurnAway(
      waiter, [&](const Caller& caller) { return core_.now >= EndOf(waiter, caller); },
      [&](const Caller& caller) { return WhyItEnds(caller, waiter.spec.name, waiter.answered, waiter.trouble); });
}

bool Callers::TurnAwayOneTries(Waiter& waiter, const std::vector<HolderView>& holders, std::optional<Duration> look_in,
                               uint32_t queue_length, Duration held_off) {
  const Duration left = look_in.value_or(Duration::zero());
  std::optional<HolderList> shown;  // one list for all of them, if there are any
  return TurnAway(
      waiter, [](const Caller& caller) { return caller.one_try; },
      [&](const Caller&) {
        if (held_off > Duration::zero()) return HeldOff(held_off, queue_length);
        if (!shown) shown = HolderList(holders);
        return Refused{.reason = RefusalReason::kLockHeld,
                       .retry_after = std::max<Duration>(left, Duration::zero()),
                       .holders = *shown,
                       .queue_length = queue_length};
      });
}

size_t Callers::Check() const {
  claims_.ForEach(&Claim::waiter, [this](const Waiter& waiter) { CheckAll(waiter); });
  for (const auto& [session, waiter] : detached_) DISTLOCK_CHECK(claims_.WaiterOf(waiter->spec.owner) == waiter);
  return 0;
}

// Each caller gets its answer: by the waiter, or by the bundle that it is a part of.
void Callers::CheckAll(const Waiter& waiter) const {
  if (const Bundle* const bundle = waiter.bundle; bundle != nullptr) {
    DISTLOCK_CHECK(waiter.callers.empty() && bundle->parts[bundle->next].spec.owner == waiter.spec.owner);
    return;
  }
  DISTLOCK_CHECK(!waiter.callers.empty());
  for (const Caller& caller : waiter.callers) {
    DISTLOCK_CHECK(waiter.at <= caller.deadline);
    if (waiter.spec.detached) {
      DISTLOCK_CHECK(detached_.at(caller.recipient.session) == &waiter);
    } else {
      DISTLOCK_CHECK(sessions_.Find(caller.recipient.session)->waiters.at(caller.recipient.request) == &waiter);
    }
  }
}

void Callers::Cancel(Waiter& waiter, RequestId request) {
  TurnAway(
      waiter, [&](const Caller& caller) { return caller.recipient.request == request; },
      [](const Caller&) { return Refused{.reason = RefusalReason::kCancelled}; });
}

}  // namespace distlock::core
