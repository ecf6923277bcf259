// SPDX-License-Identifier: Apache-2.0
#include "core/waiters.h"

#include <algorithm>
#include <utility>

#include "core/bundles.h"
#include "core/check.h"
#include "core/grants.h"
#include "core/limits.h"
#include "core/look_in.h"
#include "core/refusal_causes.h"

namespace distlock::core {

void Waiters::Handle(Acquire& in) {
  const Listener listener{in.session, in.request};
  const auto refuse = [&](RefusalReason reason, std::string cause) {
    core_.Refuse(listener, in.name, {.reason = reason, .cause = std::move(cause)});
  };
  if (core_.draining) return refuse(RefusalReason::kDraining, "");
  if (!core_.Supports(in.want)) return refuse(RefusalReason::kNotSupported, kNoPermits);

  Session* session = nullptr;
  if (!in.detached) {
    session = sessions_.Find(in.session);
    if (session == nullptr) return;  // ended meanwhile: its end answers everything
    if (session->leases.contains(in.request) || session->waiters.contains(in.request) ||
        session->bundles.contains(in.request)) {
      return refuse(RefusalReason::kInvalidArgument, "the command id is in use by another acquire of this session");
    }
    if (std::string why = sessions_.WhyFull(*session, 1); !why.empty()) {
      return refuse(RefusalReason::kQuotaExceeded, std::move(why));
    }
    if (!in.reentry.empty() && Reenter(*session, in)) return;
    EndOtherTry(in);
  } else if (JoinRepeat(in)) {
    return;
  }

  auto owned = std::make_unique<Waiter>(*this);
  Waiter& waiter = *owned;
  waiter.serial = core_.NextSerial();
  waiter.callers.push_back(CallerOf(in));
  waiter.spec = std::move(in);
  if (waiter.spec.detached && waiter.spec.max_hold > Duration::zero()) {
    waiter.spec.ttl = std::min(waiter.spec.ttl, waiter.spec.max_hold);
  }
  if (session != nullptr) {
    session->waiters.emplace(listener.request, &waiter);
    if (!waiter.spec.reentry.empty()) session->reentrant[{waiter.spec.name, waiter.spec.reentry}] = waiter.spec.owner;
  } else {
    detached_.emplace(listener.session, &waiter);
  }
  unplaced_.emplace(waiter.serial, &waiter);
  claims_.Ask(std::move(owned));
  Ask(waiter);
}

// The client has sent the request again before this broker noticed that the stream of an earlier try is over.
void Waiters::EndOtherTry(const Acquire& in) {
  Waiter* const other = claims_.OtherTry(in.owner);
  if (other == nullptr) return;
  const Refused moved{.reason = RefusalReason::kCancelled, .cause = "its request_id has been sent again"};
  Orphan(*other, &moved);
}

// An earlier try may have been granted the lock after its stream was over. Nobody was told; it is kept for this one.
void Waiters::HurryOtherTries(const Waiter& waiter, const std::vector<HolderView>& holders) {
  for (const HolderView& holder : holders) {
    if (IsSameRequest(holder.owner, waiter.spec.owner)) releases_.Hurry(holder.owner);
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
    const std::vector<Caller>& callers = CallersOf(waiter);
    waiter.waits = std::any_of(callers.begin(), callers.end(), [](const Caller& a) { return !a.one_try; });
    ++waiter.attempts;
    core_.Command(StoreAcquire{.op = waiter.op,
                               .name = spec.name,
                               .want = spec.want,
                               .owner = spec.owner,
                               .ttl = spec.ttl,
                               .lock_delay = spec.lock_delay,
                               // That of one of several locks counts from the grant of the last one.
                               .max_hold = waiter.bundle == nullptr ? spec.max_hold : Duration::zero(),
                               .min_hold = spec.min_hold,
                               .run_before = waiter.retry_at,
                               .wait = waiter.waits,
                               .again = waiter.answered,
                               .info = spec.info});
  }
  Arm(waiter);
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
  for (const Caller& caller : CallersOf(waiter)) at = std::min(at, EndOf(waiter, caller));
  core_.Arm(waiter, at);
}

void Waiters::OnTimer(Waiter& waiter) {
  if (!RefuseOverdue(waiter)) return;
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
  if (is_granted) releases_.OnReachedNobody(op.owner);
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
    if (!TurnAwayOneTries(waiter, held->holders, look_in, held->queue_length, held->held_off)) return;
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
    return Refuse(waiter, Refused{.reason = RefusalReason::kQuotaExceeded,
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
  Duration kept = spec.ttl;
  // The max_hold of one of several locks counts from the grant of the last one: see Bundles::GrantAll.
  if (waiter.bundle == nullptr && spec.detached && spec.max_hold > Duration::zero()) {
    // Its renewals end with max_hold, counted from the first grant, although acquiring again keeps the key for longer.
    const Duration left = spec.max_hold - granted.held_for;
    if (left <= kMarginFloor && spec.max_hold > granted.held_at_least) return WaitForEnd(waiter, "held for max_hold");
    if (left <= kMarginFloor) {
      PendingRelease& release =
          releases_.Start(spec.name, spec.owner, /*waiting=*/false, spec.lock_delay, spec.ttl, granted.token);
      release.ends_min_hold = spec.min_hold > Duration::zero();
      releases_.Pursue(release);
      return;  // OnReleased asks again
    }
    kept = std::min(kept, left);
  }
  grants_.Grant(waiter, {.token = granted.token,
                         .since = granted.since,
                         .made = sent - granted.held_for - core_.Drift(granted.held_for),
                         .made_by = core_.now - granted.held_at_least,
                         .ttl = spec.ttl,
                         .deadline = sent + kept - core_.Margin(kept),
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
  if (id < waiter.hinted_before || !look_in) {
    queues_.Tend(queue);
  } else {
    const Instant end = core_.now + std::max<Duration>(*look_in, Duration::zero()) + kExpirySlack;
    if (queue.op == 0 && end < queue.at) core_.Arm(queue, end);
    queue.holders = queued.holders;
    queue.held_off_until = queued.held_off > Duration::zero() ? core_.now + queued.held_off : Instant{};
  }
  HurryOtherTries(waiter, queued.holders);
  if (TurnAwayOneTries(waiter, queued.holders, look_in, queued.queue_length, queued.held_off)) Arm(waiter);
}

void Waiters::OnMismatch(Waiter& waiter, const AcquireMismatch& held) {
  std::string cause = held.mode == Mode::kExclusive ? "it is held EXCLUSIVE"
                      : held.mode == Mode::kShared
                          ? "it is held SHARED"
                          : "it is held as PERMIT out of a limit of " + std::to_string(held.limit);
  Refuse(waiter, Refused{.reason = RefusalReason::kLimitMismatch, .cause = std::move(cause)});
}

void Waiters::OnFailed(Waiter& waiter, const StoreFailed& failed) {
  switch (failed.kind) {
    case FailureKind::kFull:
      // It was told that it waits, and its place may be there.
      if (waiter.answered) return RetryLater(waiter, failed.cause);
      return Refuse(waiter,
                    Refused{.reason = RefusalReason::kStoreFull, .cause = failed.cause, .retry_after = kRetryMax});
    case FailureKind::kForeignKey:
      return Refuse(waiter, Refused{.reason = RefusalReason::kForeignKey, .cause = failed.cause});
    case FailureKind::kNotSent:
    case FailureKind::kUnavailable:
      return RetryLater(waiter, failed.cause);
  }
}

void Waiters::TellQueued(Waiter& waiter, Queued queued) {
  if (!std::exchange(waiter.answered, true)) core_.Tell(ListenerOf(waiter), std::move(queued));
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

void Waiters::Orphan(Waiter& waiter, const Refused* refused) {
  if (!IsTry(waiter.spec.owner)) {
    return refused != nullptr ? Refuse(waiter, *refused) : Withdraw(waiter);
  }
  if (refused != nullptr) {
    for (const Caller& caller : waiter.callers) TellRefused(waiter, caller, *refused);
  }
  if (PendingRelease* const release = GiveUp(waiter); release != nullptr) {
    releases_.PursueLater(*release, core_.KeepForNextTry());
  }
  Forget(waiter);
}

// What must be undone in the store. Null: nothing.
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
  for (const Caller& caller : waiter.callers) Unlist(waiter, caller.listener);
  if (Session* const session = sessions_.Find(waiter.spec.session);
      session != nullptr && !waiter.spec.reentry.empty()) {
    session->reentrant.erase({waiter.spec.name, waiter.spec.reentry});
  }
  claims_.EndAsking(waiter.spec.owner);
}

void Waiters::AskForPart(Bundle& bundle) {
  auto owned = std::make_unique<Waiter>(*this);
  Waiter& waiter = *owned;
  waiter.serial = core_.NextSerial();
  waiter.bundle = &bundle;
  waiter.spec = bundle.parts[bundle.next].spec;
  waiter.spec.session = 0;
  waiter.may_run_until = bundle.may_run_until;  // the call for all may take it yet
  waiter.began = core_.now;
  unplaced_.emplace(waiter.serial, &waiter);
  claims_.Ask(std::move(owned));
  Ask(waiter);
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
    if (waiter->spec.name == name) waiter->hinted_before = core_.NextOp();
  }
}

void Waiters::LosePlace(Waiter& waiter) {
  waiter.queued = false;
  unplaced_.emplace(waiter.serial, &waiter);
  queues_.Leave(waiter);
}

}  // namespace distlock::core
