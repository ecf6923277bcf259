// SPDX-License-Identifier: Apache-2.0
//
// Broker: from an acquire to its answer.
#include <algorithm>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

// When what a waiter waits for may have changed unheard; nullopt: the lock is free.
std::optional<Duration> Broker::LookIn(std::optional<Duration> left, const std::vector<HolderView>& holders) {
  if (left || holders.empty()) return left;
  return std::min_element(holders.begin(), holders.end(),
                          [](const HolderView& a, const HolderView& b) { return a.time_left < b.time_left; })
      ->time_left;
}

void Broker::Handle(Acquire& in) {
  const Listener listener{in.session, in.request};
  auto refuse = [&](RefusalReason reason, std::string cause) {
    Note({.kind = FactKind::kRefused, .refusal = reason, .name = in.name, .detail = {}});
    Tell(listener, Refused{.reason = reason, .cause = std::move(cause), .holders = {}});
  };
  if (draining_) return refuse(RefusalReason::kDraining, "");

  Session* session = nullptr;
  if (!in.detached) {
    const auto found = sessions_.find(in.session);
    if (found == sessions_.end()) return;  // ended meanwhile: its end answers everything
    session = found->second.get();
    if (session->leases.contains(in.request) || session->waiters.contains(in.request) ||
        session->bundles.contains(in.request)) {
      return refuse(RefusalReason::kInvalidArgument, "the command id is in use by another acquire of this session");
    }
    if (session->leases.size() + session->waiters.size() + session->bundles.size() >= config_.max_leases_per_session) {
      return refuse(RefusalReason::kQuotaExceeded,
                    "the session has " + std::to_string(config_.max_leases_per_session) + " leases and waiters");
    }
    if (!in.reentry.empty() && Reenter(*session, in)) return;
  } else if (JoinRepeat(in)) {
    return;
  }

  auto owned = std::make_unique<Waiter>();
  Waiter& waiter = *owned;
  waiter.serial = core_.NextSerial();
  waiter.askers.push_back(AskerOf(in));
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
  const bool fresh = waiters_.emplace(waiter.spec.owner, std::move(owned)).second;
  DISTLOCK_CHECK(fresh);
  Ask(waiter);
}

void Broker::Ask(Waiter& waiter) {
  LeaveAttempt(waiter);
  waiter.retry_at = kNever;
  // A give-back of the same owner must be confirmed first, or it would give back the new grant. Its end asks again.
  const bool blocked = releases_.Contains(waiter.spec.owner);
  if (!blocked && store_up_) {
    const Acquire& spec = waiter.spec;
    const Duration timeout = AttemptTimeout(spec.ttl);
    const StoreTime not_after = clock_.known() ? clock_.Latest(now_ + timeout) : StoreTime{};
    Op op;
    op.verb = Op::Verb::kAcquire;
    op.runs_until = clock_.known() ? clock_.ShownBy(not_after, now_) : now_ + timeout + kAttemptMax;
    op.owner = spec.owner;
    op.name = spec.name;
    op.waiter = waiter.serial;
    waiter.op = SendOp(std::move(op));
    waiter.retry_at = now_ + timeout;
    const std::vector<Asker>& askers = AskersOf(waiter);
    waiter.waits = std::any_of(askers.begin(), askers.end(), [](const Asker& a) { return !a.one_try; });
    ++waiter.attempts;
    Command(StoreAcquire{.op = waiter.op,
                         .name = spec.name,
                         .want = spec.want,
                         .owner = spec.owner,
                         .ttl = spec.ttl,
                         .lock_delay = spec.lock_delay,
                         .not_after = not_after,
                         .wait = waiter.waits,
                         .info = spec.info});
  }
  ArmWaiter(waiter);
}

// The attempt in flight is given up. Should its reply still come, it is as good as the next one's: acquiring is idempotent.
void Broker::LeaveAttempt(Waiter& waiter) {
  waiter.straggler_until = StragglerUntil(waiter);
  waiter.op = 0;
}

// Until when an attempt whose answer we have not seen may take effect.
Instant Broker::StragglerUntil(const Waiter& waiter) const {
  const Op* op = core_.FindOp(waiter.op);
  return op == nullptr ? waiter.straggler_until : std::max(waiter.straggler_until, op->runs_until);
}

// Until when a store that gives no answer is waited for.
Instant Broker::Patience(const Waiter& waiter, const Asker& asker) const {
  if (waiter.answered) return kNever;
  const Instant since = std::max(asker.arrived, waiter.began);
  const Instant patience = since + config_.store_timeout;
  if (asker.one_try && !store_up_) return std::min(patience, std::max(since, down_since_ + kOneTryGrace));
  return patience;
}

// When `asker` is refused if nothing happens before.
Instant Broker::EndOf(const Waiter& waiter, const Asker& asker) const {
  return waiter.queued ? asker.deadline : std::min(asker.deadline, Patience(waiter, asker));
}

// `answered`: the store has said once that it waits; `trouble`: why it could not answer since.
Refused Broker::WhyItEnds(const Asker& asker, const LockName& name, bool answered, const std::string& trouble) const {
  const bool store_is_well = store_up_ && trouble.empty();
  if (now_ >= asker.deadline && !asker.one_try && (answered || store_is_well)) {
    const auto queue = queues_.find(name);
    return Refused{.reason = RefusalReason::kWaitTimeout,
                   .cause = {},
                   .holders = queue == queues_.end() ? std::vector<HolderView>{} : queue->second->holders};
  }
  return Refused{.reason = RefusalReason::kStoreUnavailable,
                 .cause = !trouble.empty() ? trouble
                          : store_up_      ? "no answer"
                                           : store_trouble_,
                 .retry_after = kRetryMax,
                 .holders = {}};
}

void Broker::ArmWaiter(Waiter& waiter) {
  Instant at = waiter.retry_at;
  for (const Asker& asker : AskersOf(waiter)) at = std::min(at, EndOf(waiter, asker));
  Arm(waiter, at);
}

void Broker::OnWaiterTimer(Waiter& waiter) {
  const bool left = TurnAway(
      waiter, [&](const Asker& asker) { return now_ >= EndOf(waiter, asker); },
      [&](const Asker& asker) { return WhyItEnds(asker, waiter.spec.name, waiter.answered, waiter.trouble); });
  if (!left) return;
  if (now_ < waiter.retry_at) return ArmWaiter(waiter);
  if (waiter.op != 0) {
    waiter.trouble = "no answer in time";
    NoteSilence(waiter.trouble);
  }
  Ask(waiter);
}

void Broker::OnAcquireReply(const Op& op, OpId id, StoreReply& reply) {
  const auto found = waiters_.find(op.owner);
  const bool answered = !std::holds_alternative<StoreUnknown>(reply.outcome);
  if (found == waiters_.end() || found->second->serial != op.waiter) {
    // Withdrawn meanwhile, perhaps asked for anew. A broken connection may have let this overtake the withdrawal.
    PendingRelease* const release = releases_.Find(op.owner);
    if (!answered && release != nullptr) release->order_lost = true;
    const bool took_effect =
        std::holds_alternative<AcquireGranted>(reply.outcome) || std::holds_alternative<AcquireQueued>(reply.outcome);
    const bool known = found != waiters_.end() || release != nullptr || leases_.contains(op.owner) ||
                       GrantedRecently(op.owner) || IsRepeatable(op.owner);
    if (took_effect && !known) {
      PursueGiveBack(StartGiveBack(op.name, op.owner, /*waiting=*/true, Duration::zero(), kAttemptMax));
    }
    return;
  }
  Waiter& waiter = *found->second;
  if (!answered) waiter.straggler_until = std::max(waiter.straggler_until, op.runs_until);
  if (waiter.op == id) waiter.op = 0;
  // Whatever it says, the give-back under way undoes; its end asks again.
  if (releases_.Contains(op.owner)) return;
  if (const auto* granted = std::get_if<AcquireGranted>(&reply.outcome)) {
    return OnAcquireGranted(waiter, *granted, reply.time, op.sent);
  }
  if (waiter.queued) return;
  if (auto* queued = std::get_if<AcquireQueued>(&reply.outcome)) {
    return OnAcquireQueued(waiter, *queued, reply.time, op.sent);
  }
  if (waiter.op != 0) return;  // a later attempt is under way and will tell
  if (auto* held = std::get_if<AcquireHeld>(&reply.outcome)) {
    if (!TurnAwayOneTries(waiter, held->holders, LookIn(held->left, held->holders), held->queue_length)) return;
    if (!waiter.waits) return Ask(waiter);  // for those who have joined it since
  }
  if (const auto* full = std::get_if<AcquireQueueFull>(&reply.outcome)) {
    return Refuse(waiter, Refused{.reason = RefusalReason::kQuotaExceeded,
                                  .cause = "the lock's queue is full",
                                  .retry_after = kRetryMax,
                                  .holders = {},
                                  .queue_length = full->queue_length});
  }
  if (const auto* mismatch = std::get_if<AcquireMismatch>(&reply.outcome)) return OnAcquireMismatch(waiter, *mismatch);
  if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) return OnAcquireFailed(waiter, *failed);
  if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) return RetryLater(waiter, unknown->cause);
  if (std::holds_alternative<AcquireLate>(reply.outcome)) return RetryLater(waiter, "the store answered too late");
  RetryLater(waiter, "the store gave an answer that fits another command");
}

void Broker::OnAcquireGranted(Waiter& waiter, const AcquireGranted& granted, StoreTime time, Instant sent) {
  const Acquire& spec = waiter.spec;
  Duration kept = spec.ttl;
  // One of several: GrantAll counts from the last of them.
  if (waiter.bundle == nullptr && spec.detached && spec.max_hold > Duration::zero()) {
    // Its renewals end where max_hold does, counted from the first grant, though acquiring again keeps the key for longer.
    const auto left = spec.max_hold - std::chrono::microseconds(time.us - granted.since.us);
    if (left <= kMarginFloor) {
      PursueGiveBack(StartGiveBack(spec.name, spec.owner, /*waiting=*/false, spec.lock_delay, spec.ttl, granted.token));
      return;  // its end asks again
    }
    kept = std::min(kept, left);
  }
  Grant(waiter, granted.token, granted.since, spec.ttl, sent + kept - Margin(kept), Arrival::kAnswer);
}

void Broker::OnAcquireQueued(Waiter& waiter, AcquireQueued& queued, StoreTime time, Instant sent) {
  waiter.queued = waiter.exists = true;
  waiter.placed = time;
  waiter.placed_sent = sent;
  waiter.retry_at = kNever;
  waiter.trouble.clear();
  unplaced_.erase(waiter.serial);
  if (!waiter.answered) {
    Listener listener = AskersOf(waiter).front().listener;
    if (waiter.bundle != nullptr) listener.request = waiter.spec.request;
    Tell(listener, Queued{queued.position, queued.holders});
    waiter.answered = true;
  }
  const std::optional<Duration> look_in = LookIn(queued.left, queued.holders);
  JoinQueue(waiter);
  LocalQueue& queue = *queues_.at(waiter.spec.name);
  // Without a holder the script stopped at its bound, before the next living waiter.
  if (waiter.hint > time || !look_in) {
    Tend(queue);
  } else {
    const Instant end = now_ + std::max<Duration>(*look_in, Duration::zero()) + kExpirySlack;
    if (queue.op == 0 && end < queue.at) Arm(queue, end);
    queue.holders = queued.holders;
  }
  if (TurnAwayOneTries(waiter, queued.holders, look_in, queued.queue_length)) ArmWaiter(waiter);
}

void Broker::OnAcquireMismatch(Waiter& waiter, const AcquireMismatch& held) {
  std::string cause = held.mode == Mode::kExclusive ? "it is held EXCLUSIVE"
                      : held.mode == Mode::kShared
                          ? "it is held SHARED"
                          : "it is held as PERMIT out of a limit of " + std::to_string(held.limit);
  Refuse(waiter, Refused{.reason = RefusalReason::kLimitMismatch, .cause = std::move(cause), .holders = {}});
}

void Broker::OnAcquireFailed(Waiter& waiter, const StoreFailed& failed) {
  switch (failed.kind) {
    case FailureKind::kFull:
      return Refuse(
          waiter,
          Refused{.reason = RefusalReason::kStoreFull, .cause = failed.cause, .retry_after = kRetryMax, .holders = {}});
    case FailureKind::kForeignKey:
      return Refuse(waiter, Refused{.reason = RefusalReason::kForeignKey, .cause = failed.cause, .holders = {}});
    case FailureKind::kNotSent:
    case FailureKind::kUnavailable:
    case FailureKind::kProtocol:
      return RetryLater(waiter, failed.cause);
  }
}

void Broker::RetryLater(Waiter& waiter, std::string trouble) {
  waiter.trouble = std::move(trouble);
  // While the store is down StoreUp asks again.
  waiter.retry_at = store_up_ ? now_ + BackOff(waiter.attempts) : kNever;
  ArmWaiter(waiter);
}

// Refuses the askers that over() picks, for the reason that why() gives. False: none was left, and the waiter is gone.
template <typename Over, typename Why>
bool Broker::TurnAway(Waiter& waiter, Over over, Why why) {
  for (size_t i = 0; i < AskersOf(waiter).size();) {
    const Asker asker = AskersOf(waiter)[i];
    const bool last = AskersOf(waiter).size() == 1;
    if (!over(asker)) {
      ++i;
      continue;
    }
    Refused refused = why(asker);
    if (waiter.bundle != nullptr) {
      refused.about = waiter.spec.name;
      DropCaller(*waiter.bundle, asker.listener.session, &refused);
      if (last) return false;
      continue;
    }
    refused.waited = now_ - asker.arrived;
    Note({.kind = FactKind::kRefused,
          .value = refused.waited,
          .refusal = refused.reason,
          .name = waiter.spec.name,
          .detail = {}});
    Tell(asker.listener, std::move(refused));
    if (last) {
      Withdraw(waiter);
      return false;
    }
    Unlist(waiter, asker.listener);
    waiter.askers.erase(waiter.askers.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

void Broker::Refuse(Waiter& waiter, Refused refused) {
  TurnAway(waiter, [](const Asker&) { return true; }, [&](const Asker&) { return refused; });
}

bool Broker::TurnAwayOneTries(Waiter& waiter, const std::vector<HolderView>& holders, std::optional<Duration> look_in,
                              uint32_t queue_length) {
  const Duration left = look_in.value_or(Duration::zero());
  return TurnAway(
      waiter, [](const Asker& asker) { return asker.one_try; },
      [&](const Asker&) {
        return Refused{.reason = RefusalReason::kLockHeld,
                       .cause = {},
                       .retry_after = std::max<Duration>(left, Duration::zero()),
                       .holders = holders,
                       .queue_length = queue_length};
      });
}

// Ends the waiter here and, where it may exist there, in the store.
void Broker::Withdraw(Waiter& waiter) {
  const Instant straggler_until = StragglerUntil(waiter);
  // A repeat must not take back what its request was granted. Withdrawing a repeatable owner spares its grants, and must be done:
  // when that grant has been released through another broker, the repeat may have a place in the queue.
  const bool told = waiter.spec.detached && !IsRepeatable(waiter.spec.owner) && GrantedRecently(waiter.spec.owner);
  const bool may_exist = waiter.exists || waiter.op != 0 || straggler_until != Instant{};
  if (may_exist && !told) {
    PendingRelease& release = StartGiveBack(waiter.spec.name, waiter.spec.owner, /*waiting=*/true, Duration::zero(),
                                            waiter.spec.ttl + waiter.spec.lock_delay);
    release.may_run_until = std::max(release.may_run_until, straggler_until);
    release.order_lost |= waiter.straggler_until > now_;
    PursueGiveBack(release);
  }
  Forget(waiter);
}

void Broker::Forget(Waiter& waiter) {
  timers_.Cancel(waiter);
  LeaveQueue(waiter);
  unplaced_.erase(waiter.serial);
  for (const Asker& asker : waiter.askers) Unlist(waiter, asker.listener);
  if (const auto session = sessions_.find(waiter.spec.session);
      session != sessions_.end() && !waiter.spec.reentry.empty()) {
    session->second->reentrant.erase({waiter.spec.name, waiter.spec.reentry});
  }
  const OwnerId owner = waiter.spec.owner;
  waiters_.erase(owner);
}

void Broker::Handle(const Cancel& in) {
  Waiter* waiter = nullptr;
  if (const auto session = sessions_.find(in.session); session != sessions_.end()) {
    if (const auto lease = session->second->leases.find(in.acquire); lease != session->second->leases.end()) {
      Tell({in.session, in.acquire}, Refused{.reason = RefusalReason::kCancelled, .cause = {}, .holders = {}});
      if (LeaveOne(*lease->second, in.acquire)) return;
      return ReleaseLease(*lease->second, Listener{}, Duration::zero());
    }
    if (const auto part = session->second->bundles.find(in.acquire); part != session->second->bundles.end()) {
      return RefuseAll(*part->second, Refused{.reason = RefusalReason::kCancelled, .cause = {}, .holders = {}});
    }
    const auto found = session->second->waiters.find(in.acquire);
    if (found != session->second->waiters.end()) waiter = found->second;
  }
  if (waiter == nullptr) return;
  TurnAway(
      *waiter, [&](const Asker& asker) { return asker.listener.request == in.acquire; },
      [](const Asker&) { return Refused{.reason = RefusalReason::kCancelled, .cause = {}, .holders = {}}; });
}

}  // namespace distlock::core
