// SPDX-License-Identifier: Apache-2.0
#include "core/waiters.h"

#include <algorithm>
#include <utility>

#include "core/callers.h"
#include "core/check.h"
#include "core/grants.h"
#include "core/limits.h"
#include "core/look_in.h"

namespace distlock::core {

// An earlier try may have been granted the lock after its stream was over. Nobody was told; it is kept for this one.
void Waiters::GiveBackOtherTries(const Waiter& waiter, const std::vector<HolderView>& holders) {
  for (const HolderView& holder : holders) {
    if (IsSameRequest(holder.owner, waiter.spec.owner)) releases_.GiveBackNow(holder.owner);
  }
}

void Waiters::Ask(Waiter& waiter) {
  LeaveAttempt(waiter);
  waiter.retry_at = kNever;
  // A pending release of the same owner must be confirmed first, or it would release the new grant. OnReleased asks
  // then.
  const bool blocked = claims_.ReleaseOf(waiter.spec.owner) != nullptr;
  if (!blocked && core_.store_up) {
    const Acquire& spec = waiter.spec;
    const Duration timeout = core_.AttemptTimeout(spec.ttl);
    waiter.retry_at = core_.now + timeout;
    waiter.op = core_.SendOp({.sender = this,
                              .runs_until = waiter.retry_at,
                              .owner = spec.owner,
                              .waiter = waiter.serial,
                              .name = spec.name});
    const std::vector<Caller>& callers = callers_.CallersOf(waiter);
    waiter.waits = std::any_of(callers.begin(), callers.end(), [](const Caller& a) { return !a.one_try; });
    ++waiter.attempts;
    StoreAcquire command = CommandFor(spec);
    command.op = waiter.op;
    command.run_before = waiter.retry_at;
    command.wait = waiter.waits;
    command.again = waiter.answered;
    // That of one of several locks counts from the grant of the last one.
    if (waiter.bundle != nullptr) command.max_hold = {};
    core_.Command(std::move(command));
  }
  Arm(waiter);
}

StoreAcquire Waiters::CommandFor(const Acquire& spec) {
  return {.name = spec.name,
          .want = spec.want,
          .owner = spec.owner,
          .ttl = spec.ttl,
          .lock_delay = spec.lock_delay,
          .max_hold = spec.max_hold,
          .min_hold = spec.min_hold,
          .tell_wanted = spec.tell_wanted,
          .info = spec.info};
}

// Gives up the attempt in flight. If its reply still comes, it is as good as the next one's: acquiring is idempotent.
void Waiters::LeaveAttempt(Waiter& waiter) {
  waiter.may_run_until = LatestRun(waiter);
  waiter.op = 0;
}

Instant Waiters::LatestRun(const Waiter& waiter) const {
  const Op* op = core_.FindOp(waiter.op);
  return op == nullptr ? waiter.may_run_until : std::max(waiter.may_run_until, op->runs_until);
}

void Waiters::Arm(Waiter& waiter) {
  Instant at = waiter.retry_at;
  for (const Caller& caller : callers_.CallersOf(waiter)) at = std::min(at, callers_.EndOf(waiter, caller));
  core_.Arm(waiter, at);
}

void Waiters::OnTimer(Waiter& waiter) {
  if (!callers_.RefuseOverdue(waiter)) return;
  if (core_.now < waiter.retry_at) return Arm(waiter);
  if (waiter.op != 0) waiter.trouble = "no answer in time";
  Ask(waiter);
}

// The answer to an attempt of a waiter that is gone: withdrawn meanwhile, perhaps asked for anew.
void Waiters::OnLateReply(const Op& op, const StoreReply& reply) {
  PendingRelease* const release = claims_.ReleaseOf(op.owner);
  // A broken connection may have let the attempt overtake the withdrawal.
  if (std::holds_alternative<StoreUnknown>(reply.outcome) && release != nullptr) release->order_lost = true;
  const bool is_granted = std::holds_alternative<AcquireGranted>(reply.outcome);
  if (is_granted) releases_.OnGrantForNobody(op.owner);
  const bool took_effect = is_granted || std::holds_alternative<AcquireQueued>(reply.outcome);
  if (took_effect && !claims_.IsKnown(op.owner)) {
    releases_.Withdraw(op.name, op.owner, kAttemptMax);
  }
}

void Waiters::OnReply(const Op& op, OpId id, StoreReply& reply) {
  Waiter* const found = claims_.WaiterOf(op.owner);
  if (found == nullptr || found->serial != op.waiter) return OnLateReply(op, reply);
  Waiter& waiter = *found;
  const bool answered = !std::holds_alternative<StoreUnknown>(reply.outcome);
  if (!answered) waiter.may_run_until = std::max(waiter.may_run_until, op.runs_until);
  if (waiter.op == id) waiter.op = 0;
  // The release under way undoes whatever this answer says; OnReleased asks again.
  if (claims_.ReleaseOf(op.owner) != nullptr) return;
  if (const auto* granted = std::get_if<AcquireGranted>(&reply.outcome)) {
    return OnGranted(waiter, *granted, op.sent);
  }
  if (waiter.queued) return;
  if (auto* queued = std::get_if<AcquireQueued>(&reply.outcome)) {
    return OnQueued(waiter, *queued, op, id);
  }
  if (waiter.op != 0) return;  // a later attempt is under way and will tell
  if (auto* held = std::get_if<AcquireHeld>(&reply.outcome)) {
    const std::optional<Duration> look_in = LookIn(held->left, held->holders);
    wants_.OnHolders(waiter.spec.name, held->holders);
    if (!callers_.TurnAwayOneTries(waiter, held->holders, look_in, held->queue_length, held->held_off)) return;
    if (!waiter.waits) return Ask(waiter);  // for those who have joined it since
    if (held->held_off == Duration::zero()) {
      return RetryLater(waiter, "another session has sent the same request_id");
    }
    return WaitForEnd(waiter,
                      "the store may have forgotten who has it, or another session has sent the same request_id");
  }
  if (const auto* full = std::get_if<AcquireQueueFull>(&reply.outcome)) {
    // It was told that it waits, and may have had its place at a server that was replaced.
    if (waiter.answered) return RetryLater(waiter, "the lock's queue is full");
    return callers_.Refuse(waiter, Refused{.reason = RefusalReason::kQuotaExceeded,
                                           .cause = "the lock's queue is full",
                                           .retry_after = kRetryMax,
                                           .queue_length = full->queue_length});
  }
  if (const auto* mismatch = std::get_if<AcquireMismatch>(&reply.outcome)) {
    return OnMismatch(waiter, *mismatch);
  }
  if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) return OnFailed(waiter, *failed);
  if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) return RetryLater(waiter, unknown->cause);
  if (std::holds_alternative<AcquireLate>(reply.outcome)) return RetryLater(waiter, "the store answered too late");
  RetryLater(waiter, "the store gave an answer that fits another command");
}

void Waiters::OnGranted(Waiter& waiter, const AcquireGranted& granted, Instant sent) {
  const Acquire& spec = waiter.spec;
  Duration lasts = spec.ttl;
  // The max_hold of one of several locks counts from the grant of the last one: see Bundles::GrantAll.
  if (waiter.bundle == nullptr && spec.detached && spec.max_hold > Duration::zero()) {
    // Its renewals end with max_hold, counted from the first grant, although acquiring again keeps the key for longer.
    const Duration left = spec.max_hold - granted.held_for;
    if (left <= kMarginFloor && spec.max_hold > granted.held_at_least) return WaitForEnd(waiter, "held for max_hold");
    if (left <= kMarginFloor) {
      PendingRelease& release = releases_.StartRelease(spec.name, spec.owner, spec.lock_delay, spec.ttl, granted.token);
      release.ends_min_hold = spec.min_hold > Duration::zero();
      releases_.Pursue(release);
      return;  // OnReleased asks again
    }
    lasts = std::min(lasts, left);
  }
  grants_.Grant(waiter, {.token = granted.token,
                         .since = granted.since,
                         .made_earliest = sent - granted.held_for - core_.Drift(granted.held_for),
                         .made_latest = core_.now - granted.held_at_least,
                         .ttl = spec.ttl,
                         .deadline = core_.DeadlineOf(sent, lasts),
                         .arrival = Arrival::kAnswer});
}

void Waiters::OnQueued(Waiter& waiter, AcquireQueued& queued, const Op& op, OpId id) {
  waiter.queued = waiter.exists = true;
  waiter.placed_as_of = queued.as_of;
  waiter.placed_sent = op.sent;
  waiter.retry_at = kNever;
  waiter.trouble.clear();
  unplaced_.erase(waiter.serial);
  TellQueued(waiter, {queued.position, queued.holders});
  const std::optional<Duration> look_in = LookIn(queued.left, queued.holders);
  queues_.Join(waiter);
  LocalQueue& queue = *queues_.Find(waiter.spec.name);
  // No holder and no time to look at: the script reached its bound before it found a waiter whose broker lives.
  if (id < waiter.stale_before || !look_in) {
    queues_.Tend(queue);
  } else {
    const Instant end = core_.now + std::max<Duration>(*look_in, Duration::zero()) + kExpirySlack;
    if (queue.op == 0 && end < queue.at) core_.Arm(queue, end);
    queue.holders = queued.holders;
    queue.held_off_until = core_.now + queued.held_off;
  }
  GiveBackOtherTries(waiter, queued.holders);
  wants_.OnHolders(waiter.spec.name, queued.holders);
  if (callers_.TurnAwayOneTries(waiter, queued.holders, look_in, queued.queue_length, queued.held_off)) Arm(waiter);
}

void Waiters::OnMismatch(Waiter& waiter, const AcquireMismatch& held) {
  wants_.OnMismatch(waiter.spec.name);
  std::string cause = held.mode == Mode::kExclusive ? "it is held EXCLUSIVE"
                      : held.mode == Mode::kShared
                          ? "it is held SHARED"
                          : "it is held as PERMIT out of a limit of " + std::to_string(held.limit);
  callers_.Refuse(waiter, Refused{.reason = RefusalReason::kLimitMismatch, .cause = std::move(cause)});
}

void Waiters::OnFailed(Waiter& waiter, const StoreFailed& failed) {
  switch (failed.kind) {
    case FailureKind::kFull:
      // It was told that it waits, and its place may be there.
      if (waiter.answered) return RetryLater(waiter, failed.cause);
      return callers_.Refuse(
          waiter, Refused{.reason = RefusalReason::kStoreFull, .cause = failed.cause, .retry_after = kRetryMax});
    case FailureKind::kForeignKey:
      return callers_.Refuse(waiter, Refused{.reason = RefusalReason::kForeignKey, .cause = failed.cause});
    case FailureKind::kNotSent:
    case FailureKind::kUnavailable:
      return RetryLater(waiter, failed.cause);
  }
}

void Waiters::TellQueued(Waiter& waiter, Queued queued) {
  if (!std::exchange(waiter.answered, true)) core_.Tell(callers_.RecipientOf(waiter), std::move(queued));
}

void Waiters::WaitForEnd(Waiter& waiter, std::string trouble) {
  if (waiter.waits) TellQueued(waiter, {});
  RetryLater(waiter, std::move(trouble));
}

void Waiters::RetryLater(Waiter& waiter, std::string trouble) {
  waiter.trouble = std::move(trouble);
  // While the store is down StoreUp asks again.
  waiter.retry_at = core_.store_up ? core_.now + core_.BackOff(waiter.attempts) : kNever;
  Arm(waiter);
}

void Waiters::Withdraw(Waiter& waiter) {
  if (PendingRelease* const release = GiveUp(waiter); release != nullptr) releases_.Pursue(*release);
  Forget(waiter);
}

void Waiters::KeepForRetry(Waiter& waiter, const Refused* refused) {
  if (!IsTry(waiter.spec.owner)) {
    return refused != nullptr ? callers_.Refuse(waiter, *refused) : Withdraw(waiter);
  }
  if (refused != nullptr) {
    for (const Caller& caller : waiter.callers) callers_.TellRefused(waiter, caller, *refused);
  }
  if (PendingRelease* const release = GiveUp(waiter); release != nullptr) {
    releases_.PursueAfter(*release, core_.RetryWindow());
  }
  Forget(waiter);
}

// The release that undoes it in the store. Null: there is nothing to undo.
PendingRelease* Waiters::GiveUp(Waiter& waiter) {
  const Instant may_run_until = LatestRun(waiter);
  // A repeat must not release what its request was granted. For a repeatable owner, withdrawing spares its grants, and
  // must be done: when that grant has been released through another broker, the repeat may have a place in the queue.
  const bool told = waiter.spec.detached && !IsRepeatable(waiter.spec.owner) && claims_.IsLeft(waiter.spec.owner);
  const bool may_exist = waiter.exists || waiter.op != 0 || may_run_until != Instant{};
  if (!may_exist || told) return nullptr;
  return &releases_.Undo(waiter.spec, may_run_until, waiter.may_run_until > core_.now);
}

void Waiters::Forget(Waiter& waiter) {
  core_.timers.Cancel(waiter);
  queues_.Leave(waiter);
  unplaced_.erase(waiter.serial);
  callers_.Unlist(waiter);
  claims_.EndAsking(waiter.spec.owner);
}

void Waiters::Begin(std::unique_ptr<Waiter> owned) {
  DISTLOCK_CHECK(!Callers::CallersOf(*owned).empty());
  owned->serial = core_.NextSerial();
  unplaced_.emplace(owned->serial, owned.get());
  Ask(claims_.Ask(std::move(owned)));
}

void Waiters::AskForPart(Bundle& bundle) {
  auto owned = std::make_unique<Waiter>(*this);
  Waiter& waiter = *owned;
  waiter.bundle = &bundle;
  waiter.spec = bundle.parts[bundle.next].spec;
  waiter.spec.session = 0;
  waiter.may_run_until = bundle.may_run_until;  // the call for all may take it yet
  waiter.began = core_.now;
  Begin(std::move(owned));
}

void Waiters::OnStoreUp() {
  std::vector<Waiter*> waiting;
  for (auto& [serial, waiter] : unplaced_) {
    if (waiter->op == 0) waiting.push_back(waiter);
  }
  for (Waiter* waiter : waiting) Ask(*waiter);
}

// A repeat of the request has come during the release: its attempt waited for this, or its place or grant went with the
// release.
void Waiters::OnReleased(const OwnerId& owner) {
  Waiter* const waiter = claims_.WaiterOf(owner);
  if (waiter == nullptr) return;
  if (waiter->queued) LosePlace(*waiter);
  Ask(*waiter);
}

void Waiters::Hint(const LockName& name) {
  for (auto& [serial, waiter] : unplaced_) {
    if (waiter->spec.name == name) waiter->stale_before = core_.NextOp();
  }
}

void Waiters::LosePlace(Waiter& waiter) {
  waiter.queued = false;
  unplaced_.emplace(waiter.serial, &waiter);
  queues_.Leave(waiter);
}

size_t Waiters::Check() const {
  size_t deadlines = 0;
  size_t unplaced = 0;
  claims_.ForEach(&Claim::waiter, [&](const Waiter& waiter) {
    DISTLOCK_CHECK(waiter.op == 0 || core_.FindOp(waiter.op)->waiter == waiter.serial);
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
  return deadlines;
}

}  // namespace distlock::core
