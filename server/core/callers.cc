// SPDX-License-Identifier: Apache-2.0
//
// Waiters: who asks for what a waiter waits for, and who is turned away. Several callers share a waiter when a detached
// request is repeated, or when a session asks again for what it may have more than once.
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

Caller Waiters::CallerOf(const Acquire& in) const {
  Caller caller{.listener = {in.session, in.request}, .arrived = core_.now};
  caller.one_try = in.max_wait && *in.max_wait == Duration::zero();
  if (in.max_wait) caller.deadline = core_.now + (caller.one_try ? core_.config.store_timeout : *in.max_wait);
  return caller;
}

// Never empty while the waiter exists.
std::vector<Caller>& Waiters::CallersOf(Waiter& waiter) {
  return waiter.bundle != nullptr ? waiter.bundle->callers : waiter.callers;
}

// A repeat of a detached request that still waits here gets the same answer, but waits only as long as the repeat says.
// Everything else is as in the first request.
bool Waiters::JoinRepeat(const Acquire& in) {
  Waiter* const waiter = claims_.WaiterOf(in.owner);
  if (waiter == nullptr) return false;
  if (waiter->bundle != nullptr) {
    core_.Refuse({in.session, in.request}, in.name,
                 {.reason = RefusalReason::kInvalidArgument, .cause = kRequestIdInUse});
    return true;
  }
  detached_.emplace(in.session, waiter);
  Join(*waiter, in);
  return true;
}

void Waiters::Join(Waiter& waiter, const Acquire& in) {
  CallersOf(waiter).push_back(CallerOf(in));
  if (waiter.queued) {
    const LocalQueue& queue = *queues_.Find(waiter.spec.name);
    TurnAwayOneTries(waiter, queue.holders, LookIn(std::nullopt, queue.holders),
                     static_cast<uint32_t>(queue.waiters.size()), queue.held_off_until - core_.now);
  }
  Arm(waiter);
}

// The listener waits for this waiter no longer.
void Waiters::Unlist(const Waiter& waiter, const Listener& listener) {
  if (waiter.spec.detached) {
    detached_.erase(listener.session);
  } else if (Session* const session = sessions_.Find(listener.session); session != nullptr) {
    session->waiters.erase(listener.request);
  }
}

bool Waiters::DropCall(SessionId session) {
  const auto found = detached_.find(session);
  if (found == detached_.end()) return false;
  Waiter& waiter = *found->second;
  if (waiter.callers.size() == 1) {
    Withdraw(waiter);
    return true;
  }
  detached_.erase(found);
  std::erase_if(waiter.callers, [session](const Caller& caller) { return caller.listener.session == session; });
  return true;
}

void Waiters::RefuseAllDetached(const Refused& refused) {
  while (!detached_.empty()) Refuse(*detached_.begin()->second, refused);
}

// Answers an acquire of a lock that this session holds, or waits for, under the same label. False: there is none.
bool Waiters::Reenter(Session& session, const Acquire& in) {
  const auto known = session.reentrant.find({in.name, in.reentry});
  if (known == session.reentrant.end()) return false;
  Lease* const lease = claims_.LeaseOf(known->second);
  Waiter* const waiter = claims_.WaiterOf(known->second);
  DISTLOCK_CHECK((lease == nullptr) != (waiter == nullptr));
  const Want& has = lease != nullptr ? lease->reentry->want : waiter->spec.want;
  if (has.mode != in.want.mode || has.permits != in.want.permits || has.limit != in.want.limit) {
    core_.Refuse({in.session, in.request}, in.name,
                 {.reason = RefusalReason::kNotSupported, .cause = WhyNot(has, in.want)});
  } else if (lease != nullptr) {
    sessions_.Reacquire(session, *lease, in.request, Duration::zero());
  } else {
    session.waiters.emplace(in.request, waiter);
    Join(*waiter, in);
  }
  return true;
}

Listener Waiters::ListenerOf(Waiter& waiter) {
  Listener listener = CallersOf(waiter).front().listener;
  if (waiter.bundle != nullptr) listener.request = waiter.spec.request;
  return listener;
}

// Until when a caller waits for a store that gives no answer.
Instant Waiters::Patience(const Waiter& waiter, const Caller& caller) const {
  if (waiter.answered) return kNever;
  const Instant since = std::max(caller.arrived, waiter.began);
  const Instant patience = since + core_.config.store_timeout;
  if (caller.one_try && !core_.store_up) return std::min(patience, std::max(since, core_.down_since + kOneTryGrace));
  return patience;
}

// When `caller` is refused if nothing happens before.
Instant Waiters::EndOf(const Waiter& waiter, const Caller& caller) const {
  return waiter.queued ? caller.deadline : std::min(caller.deadline, Patience(waiter, caller));
}

// `answered`: the store has said once that it waits; `trouble`: why it could not answer since.
Refused Waiters::WhyItEnds(const Caller& caller, const LockName& name, bool answered,
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
bool Waiters::TurnAway(Waiter& waiter, Over over, Why why) {
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
      bundles_.DropCaller(*waiter.bundle, caller.listener.session, &refused);
      if (last) return false;
      continue;
    }
    TellRefused(waiter, caller, std::move(refused));
    if (last) {
      Withdraw(waiter);
      return false;
    }
    Unlist(waiter, caller.listener);
    waiter.callers.erase(waiter.callers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

void Waiters::TellRefused(const Waiter& waiter, const Caller& caller, Refused refused) {
  refused.waited = core_.now - caller.arrived;
  core_.Refuse(caller.listener, waiter.spec.name, std::move(refused));
}

void Waiters::Refuse(Waiter& waiter, const Refused& refused) {
  TurnAway(waiter, [](const Caller&) { return true; }, [&](const Caller&) { return refused; });
}

// Refuses the callers whose time is up. False: no caller is left, and the waiter is gone.
bool Waiters::RefuseOverdue(Waiter& waiter) {
  return TurnAway(
      waiter, [&](const Caller& caller) { return core_.now >= EndOf(waiter, caller); },
      [&](const Caller& caller) { return WhyItEnds(caller, waiter.spec.name, waiter.answered, waiter.trouble); });
}

bool Waiters::TurnAwayOneTries(Waiter& waiter, const std::vector<HolderView>& holders, std::optional<Duration> look_in,
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

size_t Waiters::Check() const {
  size_t deadlines = 0;
  size_t unplaced = 0;
  claims_.ForEach(&Claim::waiter, [&](const Waiter& waiter) {
    DISTLOCK_CHECK(waiter.op == 0 || core_.FindOp(waiter.op)->waiter == waiter.serial);
    CheckCallers(waiter);
    if (waiter.queued) {
      const LocalQueue* const queue = queues_.Find(waiter.spec.name);
      DISTLOCK_CHECK(queue != nullptr && waiter.exists && waiter.answered);
    } else {
      DISTLOCK_CHECK(unplaced_.at(waiter.serial) == &waiter);
      // It is asked for again: by its own deadline, when the store is up, or when its owner is released.
      DISTLOCK_CHECK(waiter.retry_at != kNever || !core_.store_up || claims_.ReleaseOf(waiter.spec.owner) != nullptr);
    }
    unplaced += !waiter.queued;
    deadlines += waiter.at != kNever;
  });
  DISTLOCK_CHECK(unplaced == unplaced_.size());
  for (const auto& [session, waiter] : detached_) DISTLOCK_CHECK(claims_.WaiterOf(waiter->spec.owner) == waiter);
  return deadlines;
}

// Each caller gets its answer: by the waiter, or by the bundle that it is a part of.
void Waiters::CheckCallers(const Waiter& waiter) const {
  if (const Bundle* const bundle = waiter.bundle; bundle != nullptr) {
    DISTLOCK_CHECK(waiter.callers.empty() && bundle->parts[bundle->next].spec.owner == waiter.spec.owner);
    return;
  }
  DISTLOCK_CHECK(!waiter.callers.empty());
  for (const Caller& caller : waiter.callers) {
    DISTLOCK_CHECK(waiter.at <= caller.deadline);
    if (waiter.spec.detached) {
      DISTLOCK_CHECK(detached_.at(caller.listener.session) == &waiter);
    } else {
      DISTLOCK_CHECK(sessions_.Find(caller.listener.session)->waiters.at(caller.listener.request) == &waiter);
    }
  }
}

void Waiters::Cancel(Waiter& waiter, RequestId request) {
  TurnAway(
      waiter, [&](const Caller& caller) { return caller.listener.request == request; },
      [](const Caller&) { return Refused{.reason = RefusalReason::kCancelled}; });
}

}  // namespace distlock::core
